import { execFileSync } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import { load } from 'js-yaml'
import manifest from '../package.json' with { type: 'json' }
import released from '../src/db/migrations/released-routines.json' with { type: 'json' }
import { createClient } from '../src/db/engine/connection.ts'
import { migrate, readSchema } from '../src/db/engine/migrate.ts'
import { fillInstallation, type Recording, startInstallation } from '../test/fixture/installation.ts'
import { runProcess, temporaryFolder } from '../test/fixture/process.ts'
import { startStopped } from './operate/configured-database.ts'
import { runToEnd, withTeardowns } from './run/run-to-end.ts'

/**
 * `npm run release:prepare`: writes what later versions are compared with to test/releases/<version>/, whose README describes the files.
 * CONTRIBUTING.md describes the whole release.
 */

const inRepository = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** In a century, what would expire within days or hours is still valid. */
const postponements = [
  ['sessions', 'expires_at'],
  ['refresh_tokens', 'expires_at'],
  ['one_time_tokens', 'expires_at'],
  ['invitations', 'expires_at'],
  ['uploads', 'expires_at'],
  ['idempotency_keys', 'created_at'],
].map(([table, column]) => `update ${table} set ${column} = ${column} + interval '100 years'`)

/** Fills a new installation in a folder, and resolves to what it answers. */
const fill = (dataDir: string) =>
  withTeardowns(async (t) => {
    const connection = await startStopped(t, { dataDir, postgresBin: null })
    await migrate(connection)
    t.teardown(async () => {
      const client = createClient(connection)
      for (const statement of [...postponements, 'vacuum full']) await client.unsafe(statement).simple()
      await client.end()
    })
    return fillInstallation(t, await startInstallation(t, dataDir, connection))
  })

/** JSON with a line for each read. */
const inLines = ({ reads, ...rest }: Recording): string => {
  const lines = reads.map((read) => `    ${JSON.stringify(read)}`)
  const reading = `,\n  "reads": [\n${lines.join(',\n')}\n  ]\n}\n`
  return JSON.stringify(rest, null, 2).replace(/\n}$/, () => reading)
}

await runToEnd('release:prepare', 600_000, async (t) => {
  const { version } = manifest
  if (execFileSync('git', ['tag', '--list', `v${version}`], { cwd: inRepository('') }).length > 0)
    throw new Error(`${version} is released, and its files never change. Set a new version first`)
  const dataDir = await temporaryFolder(t)
  const recording = await fill(dataDir)
  const archive = join(await temporaryFolder(t), 'backup.tar')
  const { code, output } = await runProcess(
    { DATA_DIR: dataDir },
    inRepository('scripts/operate/backup.ts'),
    [archive],
  )
  if (code !== 0) throw new Error(output)
  // The large window finds what the rows of different tables repeat.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
  const compressed = await promisify(brotliCompress)(await readFile(archive), { params })

  const folder = inRepository(`test/releases/${version}`)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  await writeFile(
    join(folder, 'openapi.json'),
    `${JSON.stringify(load(await readFile(inRepository('openapi.yaml'), 'utf8')))}\n`,
  )
  const schema = readSchema()
  await writeFile(join(folder, 'schema.json'), `${JSON.stringify(schema)}\n`)
  // A later version restores archives with these routines.
  await writeFile(
    inRepository('src/db/migrations/released-routines.json'),
    `${JSON.stringify({ ...released, [version]: schema.routines.hash }, null, 2)}\n`,
  )
  await writeFile(join(folder, 'backup.tar.br'), compressed)
  await writeFile(join(folder, 'recording.json'), inLines(recording))
  execFileSync(process.execPath, [inRepository('scripts/run/test.ts'), 'test/upgrades.ts'], {
    stdio: 'inherit',
  })
  console.log(`Wrote test/releases/${version} and released-routines.json. Commit them.`)
})
