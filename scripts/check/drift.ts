import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'

/** Fails if the generated types, migrations, routines, statements, folded characters or tables of docs/ are out of date. */

const snapshot = (): ReadonlyMap<string, string> =>
  new Map(
    globSync([
      'generated/**/*.{ts,sql}',
      'src/db/migrations/**/*.{sql,json}',
      'src/db/routines.sql',
      'src/domain/**/*.json',
      'docs/**/*.md',
    ]).map((path) => [path, readFileSync(path, 'utf8')]),
  )

const before = snapshot()
execFileSync('npm', ['run', '--silent', 'generate'], { stdio: ['ignore', 'ignore', 'inherit'] })
const after = snapshot()
const paths = [...new Set([...before.keys(), ...after.keys()])]
const drifted = paths.filter((path) => before.get(path) !== after.get(path))

if (drifted.length > 0) {
  console.error(
    `Generated files were out of date and have been regenerated. Review and commit them:\n  ${drifted.join('\n  ')}`,
  )
  process.exitCode = 1
}
