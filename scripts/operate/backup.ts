import { existsSync } from 'node:fs'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { readConfig } from '../../src/config/config.ts'
import { lockFolder } from '../../src/db/engine/embedded.ts'
import { syncFolder, unfinishedName, writeArchive } from './archive.ts'
import { hasEmbedded } from './configured-database.ts'
import { runToEnd } from '../run/run-to-end.ts'

/**
 * Writes the embedded database, the attachments and the generated secret of DATA_DIR to one file. `npm run restore` reads it:
 *
 *     npm run backup -- /backups/taskwright.tar
 *
 * The service must be stopped, and cannot start during the backup.
 */

const deadline = 24 * 3_600_000

const usage = 'Usage: npm run backup -- <file>, such as npm run backup -- /backups/taskwright.tar'

/** Files of a running process. */
const excluded = new Set(['lock', 'postgres.sock', 'postgres.new', 'compiled'])

await runToEnd('backup', deadline, async (t) => {
  const [name, ...more] = process.argv.slice(2)
  if (name === undefined || more.length > 0) throw new Error(usage)
  const { dataDir, databaseUrl, storageUrl } = readConfig()
  if (databaseUrl !== null)
    throw new Error('DATABASE_URL is set: back up that server with pg_dump, and copy the folder DATA_DIR')
  if (!(await hasEmbedded({ dataDir })))
    throw new Error(
      `DATA_DIR ${dataDir} does not contain a database. Set DATA_DIR as for the service, which creates its database when it starts`,
    )
  const file = resolve(name)
  if (existsSync(file)) throw new Error(`${file} already exists. Name another file, or remove it first`)
  if (!existsSync(dirname(file)))
    throw new Error(`The folder ${dirname(file)} does not exist. Create it first`)
  if (!relative(dataDir, file).startsWith(`..${sep}`)) throw new Error(`${file} must not be inside DATA_DIR`)

  t.teardown(await lockFolder(dataDir, { info: console.error, warn: console.error }, exitWithError))
  const scratch = await mkdtemp(join(tmpdir(), 'taskwright-backup-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  const unfinished = unfinishedName(file)
  await rm(unfinished, { force: true })
  t.teardown(() => rm(unfinished, { force: true }))

  const { files, bytes } = await writeArchive(unfinished, dataDir, (path) => excluded.has(path), scratch)
  await rename(unfinished, file)
  await syncFolder(dirname(file))
  console.log(`${file}: ${files} files, ${bytes} bytes`)
  if (storageUrl !== null)
    console.log(`The attachments are not included; they are in the bucket ${storageUrl.bucket}.`)
})

/** The lock was lost, so another process may have changed files during the copy. */
function exitWithError(error: Error): never {
  console.error(`backup: ${error.message}`)
  process.exit(1)
}
