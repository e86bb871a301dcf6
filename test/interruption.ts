import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { temporaryFolder } from './fixture/process.ts'

/** What an interrupted script leaves behind. */

const moduleOf = (path: string): string => JSON.stringify(new URL(`../scripts/${path}`, import.meta.url).href)

t.test('an interrupted script runs every teardown, and leaves no unfinished archive', async (t) => {
  const folder = await temporaryFolder(t)
  const scratch = await temporaryFolder(t)
  const script = `
    import { runToEnd } from ${moduleOf('run/run-to-end.ts')}
    import { writeArchive } from ${moduleOf('operate/archive.ts')}
    await runToEnd('script', 60_000, async (t) => {
      t.teardown(async () => console.log('the first'))
      await writeArchive(t, ${JSON.stringify(join(folder, 'x.tar'))}, ${JSON.stringify(scratch)}, async (archive) => {
        await archive.add('file', 3, [Buffer.from('abc')])
        t.teardown(() => Promise.reject(new Error('this one fails')))
        console.log('ready')
        await new Promise(() => setInterval(() => undefined, 1_000))
      })
    })`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  const closed = once(child, 'close')
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  t.strictSame(await closed, [1, null], output)
  t.match(output, 'script: interrupted by SIGTERM')
  t.match(output, 'script: this one fails')
  t.match(output, 'the first')
  t.strictSame(await readdir(folder), [])
})
