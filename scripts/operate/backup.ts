import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { readConfig } from '../../src/config/config.ts'
import { freeBytesOf } from '../../src/db/engine/disk-space.ts'
import { postgresFolder, syncFolder } from '../../src/postgres/cluster.ts'
import { minFreeBytes } from '../../src/postgres/settings.ts'
import { unfinishedName, walk, writeArchive } from './archive.ts'
import { expectDatabase, lockData } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { connectToService } from './running-service.ts'
import { copyRunning } from './snapshot.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Writes the database, the attachments and the generated secret of DATA_DIR to one file. `npm run restore` reads it:
 *
 *     npm run backup -- /backups/taskwright.tar
 *
 * While the service runs, it goes on; otherwise it cannot start during the backup.
 */

const deadline = 24 * 3_600_000

const usage = `Usage: npm run backup -- <file>, such as npm run backup -- /backups/taskwright.tar

Writes the database, the attachments and the generated secret of DATA_DIR to a new file, also while the service runs.`

/** Files of a running process, and what `npm run carry-over` has left. */
const excluded = new Set([
  'carrying-over',
  'postgres',
  'postgres-before-0.3',
  'lock',
  'postgresql.lock',
  'postgresql.new',
  join('postgresql', 'postmaster.pid'),
  join('postgresql', '.s.PGSQL.5432.lock'),
  'libraries',
  'compiled',
  'backing-up',
])
const isExcluded = (path: string): boolean => excluded.has(path)

helpIfAsked(usage)

await runToEnd('backup', deadline, async (t) => {
  const [name, ...more] = process.argv.slice(2)
  if (name === undefined || more.length > 0) throw new Error(usage)
  const { dataDir, databaseUrl, storageUrl } = readConfig()
  if (databaseUrl !== null)
    throw new Error('DATABASE_URL is set: back up that server with pg_dump, and copy the folder DATA_DIR')
  await expectDatabase({ dataDir })
  const file = resolve(name)
  if (existsSync(file)) throw new Error(`${file} already exists. Name another file, or remove it first`)
  if (!existsSync(dirname(file)))
    throw new Error(`The folder ${dirname(file)} does not exist. Create it first`)
  if (!relative(dataDir, file).startsWith(`..${sep}`)) throw new Error(`${file} must not be inside DATA_DIR`)

  const folder = await prepareFolder(t, dataDir, dirname(file))
  const scratch = await mkdtemp(join(tmpdir(), 'taskwright-backup-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  const unfinished = unfinishedName(file)
  await rm(unfinished, { force: true })
  t.teardown(() => rm(unfinished, { force: true }))

  const { files, bytes } = await writeArchive(unfinished, folder, isExcluded, scratch)
  await rename(unfinished, file)
  await syncFolder(dirname(file))
  console.log(`${file}: ${files} files, ${bytes} bytes`)
  if (storageUrl !== null)
    console.log(`The attachments are not included; they are in the bucket ${storageUrl.bucket}.`)
})

/** The folder to archive: DATA_DIR, which no service can use meanwhile, or a copy of it that the running service leaves alone. */
async function prepareFolder(t: Teardown, dataDir: string, target: string): Promise<string> {
  const service = await connectToService(dataDir)
  if (service === null) {
    await lockData(t, dataDir)
    return dataDir
  }
  t.teardown(async () => service.close())
  if (service.isBusy) throw new Error('Another backup is running. Wait until it ends')
  // On the same disk, so that attachments need no copy.
  const copy = join(dataDir, 'backing-up')
  await rm(copy, { recursive: true, force: true })
  await expectRoom(dataDir, target)
  await mkdir(copy, { mode: 0o700 })
  t.teardown(() => rm(copy, { recursive: true, force: true }))
  await copyRunning(service, dataDir, copy, isExcluded)
  return copy
}

/** @throws Error unless the disk has room for a copy of the database, for an archive in `target`, and for the service beside them */
async function expectRoom(dataDir: string, target: string): Promise<void> {
  let needed = minFreeBytes + (await sizeOf(postgresFolder(dataDir), () => false))
  if ((await stat(target)).dev === (await stat(dataDir)).dev) needed += await sizeOf(dataDir, isExcluded)
  if ((await freeBytesOf(dataDir)) >= needed) return
  throw new Error(
    `The disk with DATA_DIR ${dataDir} needs ${Math.ceil(needed / 1_048_576)} MiB of free space for a copy of the database and the archive. Free up space, write the archive to another disk, or stop the service first: a backup of a stopped service needs no copy`,
  )
}

/** The bytes in the files of a folder. */
async function sizeOf(folder: string, isLeftOut: (path: string) => boolean): Promise<number> {
  let size = 0
  for await (const { path, isFolder } of walk(folder, isLeftOut))
    if (!isFolder) size += (await stat(join(folder, path)).catch(() => null))?.size ?? 0
  return size
}
