import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'

/** Fails if the generated types, migrations, routines, folded characters or tables of docs/ are out of date. */

const snapshot = (): ReadonlyMap<string, string> =>
  new Map(
    globSync([
      'generated/**/*.ts',
      'src/db/migrations/**/*.{sql,json}',
      'src/db/routines.sql',
      'src/domain/*.json',
      'docs/**/*.md',
    ]).map((path) => [path, readFileSync(path, 'utf8')]),
  )

const before = snapshot()
execFileSync('npm', ['run', '--silent', 'generate'], { stdio: ['ignore', 'ignore', 'inherit'] })
const after = snapshot()
const drifted = [...after].filter(([path, content]) => before.get(path) !== content).map(([path]) => path)

if (drifted.length > 0) {
  console.error(
    `Generated files were out of date and have been regenerated. Review and commit them:\n  ${drifted.join('\n  ')}`,
  )
  process.exitCode = 1
}
