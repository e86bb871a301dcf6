import { statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Config, readConfig } from '../../src/config/config.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import type { ServerConnection } from '../../src/db/engine/connection.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { restoringFolder } from '../../src/data-dir/interrupted.ts'
import { ignoreMissing } from '../../src/data-dir/system-errors.ts'
import { restartHistoryIfCopied } from '../../src/db/activity/task-changes.ts'
import { expectCounts } from '../../src/db/transfer/counts.ts'
import { readEpoch, writeTables } from '../../src/db/transfer/write.ts'
import { claimFiles } from '../../src/jobs/ownership.ts'
import { syncFolder } from '../../src/data-dir/folder.ts'
import { makeDataDir } from '../../src/process/data-dir.ts'
import { diskStorage } from '../../src/storage/disk.ts'
import { filesFolder } from '../../src/storage/open.ts'
import { type ArchiveEntry, ArchiveUnusable, extractEntry } from './archive.ts'
import { readBackup } from './backup-format.ts'
import { lockData, startStopped } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { runToEnd } from '../run/run-to-end.ts'

/**
 * Restores a file of `npm run backup` to DATA_DIR, which must be empty or missing; with DATABASE_URL, to an empty database of a server, and
 * the files to DATA_DIR:
 *
 *     DATA_DIR=./data npm run restore -- /backups/taskwright.tar
 *
 * Everything is written to the folder `restoring` in DATA_DIR, or in a transaction, and takes its place when the whole file has been
 * verified. After a kill at any moment, the same command starts over, or finishes what was verified.
 */

const deadline = 24 * 3_600_000

const usage = `Usage: npm run restore -- <file of npm run backup>

Restores a backup to DATA_DIR, which must be empty or missing, or with DATABASE_URL to an empty database of a server.`

/** What the archive has besides the database. */
const fileNames = new Set(['attachments', 'jwt-secret'])

/** Its presence says that everything else in the folder is complete, and is being moved to DATA_DIR. */
const verifiedName = 'verified'

/** All but that, and files of the PostgreSQL that has written the database, is moved. */
const leftOut = new Set(['lock', 'postgresql.lock', 'libraries', verifiedName])

helpIfAsked(usage)

await runToEnd('restore', deadline, async (t) => {
  const [name, ...more] = process.argv.slice(2)
  if (name === undefined || more.length > 0) throw new Error(usage)
  const file = resolve(name)
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new Error(`There is no file ${file}. ${usage}`)
  const config = readConfig()
  const { dataDir } = config
  await makeDataDir(dataDir)
  await lockData(t, dataDir)
  const unfinished = restoringFolder(dataDir)
  if (await isComplete(config)) {
    await finish(config)
    console.log(`It finished the restore that was interrupted; nothing was read from ${file}`)
    return
  }
  await rm(unfinished, { recursive: true, force: true })
  await expectEmpty(config)

  await mkdir(unfinished, { mode: 0o700 })
  // Either the teardown removes the folder, or the script goes on to its end, but not both.
  let isKept = false
  t.teardown(async () => {
    if (!isKept) await rm(unfinished, { recursive: true, force: true })
  })
  const keep = (): void => {
    t.interrupted.throwIfAborted()
    isKept = true
  }
  const database = new AsyncDisposableStack()
  t.teardown(() => database.disposeAsync())
  const rows = await load(await openTarget(database, config, unfinished), config, unfinished, { file, keep })
  keep()
  await database.disposeAsync()
  if (config.databaseUrl === null) await markVerified(config, null)
  console.log(`${rows} rows were restored`)
  await finish(config)
})

async function finish({ dataDir, storageUrl }: Config): Promise<void> {
  await moveToPlace(restoringFolder(dataDir), dataDir)
  console.log(`${dataDir} is complete; you can now start the service`)
  if (storageUrl !== null)
    console.log('"npm run --silent admin -- storage adopt" assigns the files in the bucket to this database.')
}

/** @throws Error */
async function expectEmpty({ dataDir, databaseUrl }: Config): Promise<void> {
  const names = await readdir(dataDir)
  const found = names.filter((name) => (databaseUrl === null ? name !== 'lock' : fileNames.has(name)))
  if (found.length > 0)
    throw new Error(
      `DATA_DIR ${dataDir} is not empty: it contains ${found.join(', ')}. Restore to another DATA_DIR, or move these files away`,
    )
}

async function openTarget(
  stack: AsyncDisposableStack,
  { databaseUrl, postgresBin }: Config,
  unfinished: string,
): Promise<ServerConnection> {
  return databaseUrl === null
    ? startStopped(
        { teardown: (action) => stack.defer(async () => void (await action())) },
        { dataDir: unfinished, postgresBin },
      )
    : { url: databaseUrl }
}

interface Source {
  /** The archive. */
  readonly file: string
  /** Called before a server commits: what is written must not be removed any more. @throws the reason of an interruption */
  readonly keep: () => void
}

/** Writes an archive to a database, and its files to a folder. Resolves to the number of rows. */
async function load(
  connection: ServerConnection,
  config: Config,
  unfinished: string,
  { file, keep }: Source,
): Promise<number> {
  const scratch = await mkdtemp(join(tmpdir(), 'taskwright-restore-'))
  try {
    const backup = await readBackup(file, scratch)
    if (backup.hasFiles && config.storageUrl !== null)
      throw new Error(
        'The archive contains the attachments, and STORAGE_URL is set. Restore without it: they are then in DATA_DIR',
      )
    const written = await writeTables(connection, {
      schema: backup.schema,
      tables: backup.tables,
      async verify(tables, epoch) {
        expectCounts(await backup.counts(), tables)
        for await (const entry of backup.files()) await extractEntry(expectFile(entry), unfinished)
        if (config.databaseUrl === null) return
        keep()
        // If the server commits, everything is there.
        await markVerified(config, epoch)
      },
    })
    await migrate(connection)
    if (backup.hasFiles) await claim(connection, unfinished)
    return written.reduce((sum, { rows }) => sum + rows, 0)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

function expectFile(entry: ArchiveEntry): ArchiveEntry {
  const [name = ''] = entry.name.split('/', 1)
  if (entry.type === 'file' && fileNames.has(name)) return entry
  throw new ArchiveUnusable(`it contains an unexpected entry, ${entry.name}`)
}

/** Records the database as the owner of the files, which it was not in the archive. */
async function claim(connection: ServerConnection, dataDir: string): Promise<void> {
  const db = openDatabase(connection)
  const storage = await diskStorage(filesFolder({ dataDir }))
  try {
    await claimFiles(storage, await restartHistoryIfCopied(db))
  } finally {
    await Promise.all([db.close(), storage.close()])
  }
}

function verifiedFile(dataDir: string): string {
  return join(restoringFolder(dataDir), verifiedName)
}

/** `epoch` is that of the database of a server, which is complete if it has it; null if the database is in the folder. */
async function markVerified({ dataDir }: Config, epoch: number | null): Promise<void> {
  await writeFile(verifiedFile(dataDir), JSON.stringify(epoch), { mode: 0o600, flush: true })
  await syncFolder(restoringFolder(dataDir))
}

/**
 * Whether an interrupted restore has only its files left to move.
 *
 * @throws Error if they belong to another database than the configured one
 */
async function isComplete({ dataDir, databaseUrl }: Config): Promise<boolean> {
  const text = await readFile(verifiedFile(dataDir), 'utf8').catch(ignoreMissing)
  if (text === undefined) return false
  const epoch: unknown = JSON.parse(text)
  if (databaseUrl === null) {
    if (epoch === null) return true
    throw restoreOfAnother(dataDir, 'the database of a server. Set DATABASE_URL as it was')
  }
  if (epoch === null) throw restoreOfAnother(dataDir, 'a database in DATA_DIR. Unset DATABASE_URL')
  const found = await readEpoch({ url: databaseUrl })
  if (found !== null && found !== epoch)
    throw restoreOfAnother(dataDir, 'another database than that of DATABASE_URL. Set DATABASE_URL as it was')
  // Without an epoch, the server has not committed.
  return found !== null
}

function restoreOfAnother(dataDir: string, which: string): Error {
  return new Error(
    `${restoringFolder(dataDir)} has the files of a restore that was interrupted, to ${which} and run the command again, or remove the folder to give that restore up`,
  )
}

/** The database is moved last, so an interrupted restore never leaves a database without its files. */
async function moveToPlace(unfinished: string, dataDir: string): Promise<void> {
  const names = (await readdir(unfinished)).filter((name) => !leftOut.has(name))
  const last = (name: string): number => Number(name === 'postgresql')
  for (const name of names.toSorted((a, b) => last(a) - last(b)))
    await rename(join(unfinished, name), join(dataDir, name))
  await syncFolder(dataDir)
  // The marker last: without it, a second run would refuse the complete DATA_DIR.
  for (const name of await readdir(unfinished))
    if (name !== verifiedName) await rm(join(unfinished, name), { recursive: true, force: true })
  await rm(unfinished, { recursive: true })
}
