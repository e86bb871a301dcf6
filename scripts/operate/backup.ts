import { existsSync } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { type Config, readConfig } from '../../src/config/config.ts'
import { type Database, openDatabase } from '../../src/db/engine/client.ts'
import type { ServerConnection } from '../../src/db/engine/connection.ts'
import { DiskFull, freeBytesOf } from '../../src/data-dir/disk-space.ts'
import { readMigrationState } from '../../src/db/engine/migrate.ts'
import { holdFiles } from '../../src/db/files/holds.ts'
import { selectAttachmentKeys } from '../../src/db/files/deletions.ts'
import { readTables } from '../../src/db/transfer/read.ts'
import { attachmentsWithoutFiles } from '../../src/jobs/inventory.ts'
import { minFreeBytes } from '../../src/postgres/settings.ts'
import { secretPath } from '../../src/process/secrets.ts'
import { incomingFolder, shards } from '../../src/storage/disk/folders.ts'
import { filesFolder, openStorage } from '../../src/storage/open.ts'
import { addFile, type ArchiveWriter, filesBelow, writeArchive } from './archive.ts'
import { addDatabase } from './backup-format.ts'
import { openConfigured } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { runToEnd } from '../run/run-to-end.ts'

/**
 * Writes the database, the attachments and the generated secret to one file. `npm run restore` reads it:
 *
 *     npm run backup -- /backups/taskwright.tar
 *
 * The service may run, also several instances.
 */

const deadline = 24 * 3_600_000

const usage = `Usage: npm run backup -- <file>, such as npm run backup -- /backups/taskwright.tar

Writes the database, the attachments and the generated secret to a new file, also while the service runs.`

helpIfAsked(usage)

await runToEnd('backup', deadline, async (t) => {
  const [name, ...more] = process.argv.slice(2)
  if (name === undefined || more.length > 0) throw new Error(usage)
  const config = readConfig()
  const { dataDir, storageUrl } = config
  const file = resolve(name)
  if (existsSync(file)) throw new Error(`${file} already exists. Name another file, or remove it first`)
  if (!existsSync(dirname(file)))
    throw new Error(`The folder ${dirname(file)} does not exist. Create it first`)
  if (!relative(dataDir, file).startsWith(`..${sep}`)) throw new Error(`${file} must not be inside DATA_DIR`)

  const connection = await openConfigured(t, config)
  await expectCurrentSchema(connection)
  const db = openDatabase(connection)
  t.teardown(() => db.close())
  const scratch = await mkdtemp(join(tmpdir(), 'taskwright-backup-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  const hasFiles = storageUrl === null
  const expectSpace = await spaceCheck(config, dirname(file))
  const hold = await holdFiles(db)
  t.teardown(() => hold.end())
  let [rows, missing] = [0, 0]
  const { files, bytes } = await writeArchive(t, file, scratch, async (unchecked) => {
    const archive: ArchiveWriter = {
      async add(entry, size, content) {
        await expectSpace(size)
        await unchecked.add(entry, size, content)
      },
    }
    rows = await readTables(connection, (tables) => addDatabase(archive, tables, { hasFiles }))
    if (hasFiles) await addFiles(archive, db, filesFolder(config))
    await addFile(archive, secretPath(dataDir), 'jwt-secret')
    if (hasFiles) missing = await countMissing(db, config)
    await hold.confirm()
  })
  console.log(`${file}: ${rows} rows, ${files} files, ${bytes} bytes`)
  if (missing > 0)
    console.log(
      `Attachments whose file is missing, also in the backup: ${missing}. "npm run --silent admin -- storage check" names them.`,
    )
  if (!hasFiles) console.log(`The attachments are not included; they are in the bucket ${storageUrl.bucket}.`)
})

/** @throws Error */
async function expectCurrentSchema(connection: ServerConnection): Promise<void> {
  const { pending, unknown } = await readMigrationState(connection)
  if (pending > 0 || unknown > 0)
    throw new Error(
      'The database has the schema of another version of Taskwright. Back it up with that version, or start this one first',
    )
}

/** Adds the files of the storage. Whatever was complete when the tables were read is there; unfinished uploads come and go. */
async function addFiles(archive: ArchiveWriter, db: Database, folder: string): Promise<void> {
  if (!existsSync(folder) && (await selectAttachmentKeys(db, { after: '', limit: 1 })).length > 0)
    throw new Error(
      `${folder} is missing, and the database has attachments. Mount it, or set DATA_DIR as for the service`,
    )
  // Incomplete files first: one that is completed meanwhile is found after it was moved.
  for (const name of [incomingFolder, ...shards]) {
    if (!existsSync(join(folder, name))) continue
    for await (const path of filesBelow(folder, name))
      await addFile(archive, join(folder, path), `attachments/${path.split(sep).join('/')}`)
  }
}

/** The number of attachments whose file is not there. While files are held, it was not there for the backup either. */
async function countMissing(db: Database, config: Config): Promise<number> {
  const storage = await openStorage(config, { mayCreate: false })
  let missing = 0
  for await (const ids of attachmentsWithoutFiles(db, storage)) missing += ids.length
  await storage.close()
  return missing
}

/** A check that an archive in `target` leaves space for the database in DATA_DIR. Other disks may become full. */
async function spaceCheck(
  { dataDir, databaseUrl }: Config,
  target: string,
): Promise<(size: number) => Promise<void>> {
  if (databaseUrl !== null || (await stat(target)).dev !== (await stat(dataDir)).dev)
    return async () => undefined
  return async (size) => {
    const freeBytes = await freeBytesOf(dataDir)
    if (freeBytes - size < minFreeBytes) throw new DiskFull(dataDir, freeBytes)
  }
}
