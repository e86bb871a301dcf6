import { execFileSync } from 'node:child_process'
import t from 'tap'

const skip = process.platform !== 'linux' && 'only Linux has this score'

t.test('a process that calls it is the first to be ended', { skip }, async (t) => {
  const file = new URL('../../src/concurrency/memory-shortage.ts', import.meta.url)
  const program = `import { readFileSync } from 'node:fs'
    import { endFirstWithoutMemory } from '${file.href}'
    endFirstWithoutMemory()
    console.log(readFileSync('/proc/self/oom_score_adj', 'latin1').trim())`
  const output = execFileSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  })
  t.equal(output, '1000\n')
})
