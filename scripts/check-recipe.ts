import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Follows the recipe for a new endpoint in CONTRIBUTING.md: applies the diff to a copy of the repository, generates the rest, and runs
 * the checks of the pre-commit hook and more, and tests. Fails if any step fails.
 */

/** As CONTRIBUTING.md says: those of the diff, and the generated ones. */
const expectedFiles = 9

const recipe = /^```diff\n([^]*?)^```$/m.exec(readFileSync('CONTRIBUTING.md', 'utf8'))?.[1]
if (recipe === undefined) throw new Error('CONTRIBUTING.md has no diff')

const tests = ['test/handlers/tags.ts', 'test/permissions.ts', 'test/statements.ts', 'test/examples.ts']

const copy = mkdtempSync(join(tmpdir(), 'taskwright-recipe-'))
const run = (command: string, args: readonly string[], input?: string): void => {
  console.log(`$ ${command} ${args.join(' ')}`)
  execFileSync(command, args, {
    cwd: copy,
    input,
    stdio: [input === undefined ? 'ignore' : 'pipe', 'inherit', 'inherit'],
  })
}
const countChangedFiles = (): number =>
  execFileSync('git', ['status', '--porcelain'], { cwd: copy, encoding: 'utf8' }).split('\n').filter(Boolean)
    .length

try {
  const tracked = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8' }).split('\0').filter(Boolean)
  for (const path of tracked) cpSync(path, join(copy, path))
  symlinkSync(join(process.cwd(), 'node_modules'), join(copy, 'node_modules'))
  run('git', ['init', '--quiet'])
  run('git', ['add', '--all'])
  run('git', [
    '-c',
    'user.name=recipe',
    '-c',
    'user.email=recipe@example.com',
    'commit',
    '--quiet',
    '--message=Before',
  ])
  run('git', ['apply', '-'], recipe)
  run('npm', ['run', '--silent', 'generate'])
  for (const check of ['check:fast', 'check:contract', 'check:imports'])
    run('npm', ['run', '--silent', check])
  run('npm', ['test', '--', ...tests])
  const changed = countChangedFiles()
  console.log(`The endpoint changes ${changed} files`)
  if (changed !== expectedFiles)
    throw new Error(`CONTRIBUTING.md says that it changes ${expectedFiles} files`)
} finally {
  rmSync(copy, { recursive: true, force: true })
}
