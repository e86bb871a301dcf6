import { constants } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Config, readConfig } from '../../src/config/config.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { freeBytesOf } from '../../src/data-dir/disk-space.ts'
import type { Identity } from '../../src/db/shared/identity.ts'
import { restartHistoryIfCopied } from '../../src/db/activity/task-changes.ts'
import { copyDatabase } from '../../src/db/transfer/copy.ts'
import type { WrittenTable } from '../../src/db/transfer/write.ts'
import { claimFiles, ownershipConflict, ownershipOf } from '../../src/jobs/ownership.ts'
import { earlierFolder, initialBytes, retiredFolder } from '../../src/postgres/cluster.ts'
import { minFreeBytes } from '../../src/postgres/settings.ts'
import { makeDataDir } from '../../src/process/data-dir.ts'
import { openStorage } from '../../src/storage/open.ts'
import { runToEnd, withTeardowns } from '../run/run-to-end.ts'
import { engineMemory, withEngine } from './carry-over/engine.ts'
import { fetchedLines } from './carry-over/fetched-lines.ts'
import {
  expectEarlier,
  expectFolder,
  extract,
  type Folders,
  foldersIn,
  isLeftToFinish,
  moveExtracted,
  putInPlace,
  readOwner,
  removeUnfinished,
  retireEarlier,
} from './carry-over/folders.ts'
import { lockData, startStopped } from './configured-database.ts'
import { helpIfAsked } from './help.ts'

/**
 * Writes the data of version 0.1 or 0.2 in DATA_DIR to a database of this version, and leaves the files where they are:
 *
 *     npm run carry-over
 *
 * or first extracts a backup that one of these versions has written to DATA_DIR, which must be empty:
 *
 *     npm run carry-over -- /backups/of-0.2.tar
 *
 * Those versions ran PostgreSQL in WebAssembly, whose files PostgreSQL itself cannot read. A copy of them is opened by it and upgraded, and
 * its rows are copied to a new database, which is renamed into place when it is complete. After a kill at any moment, the command can be
 * run again.
 */

const deadline = 24 * 3_600_000

const usage = `Usage: npm run carry-over -- [<backup of 0.1 or 0.2>]

Writes the database of version 0.1 or 0.2 in DATA_DIR, or in a backup, to a database of this version. Stop the service first.`

helpIfAsked(usage)

await runToEnd('carry-over', deadline, async (t) => {
  const [file, ...more] = process.argv.slice(2)
  if (more.length > 0) throw new Error(usage)
  const config = readConfig()
  const { databaseUrl, dataDir } = config
  if (databaseUrl !== null)
    throw new Error(
      'DATABASE_URL is set: the service upgrades the database of a server when it starts. To carry over a database in DATA_DIR, unset it',
    )
  const folders = foldersIn(dataDir)
  if (file === undefined) await expectFolder(folders)
  else await makeDataDir(dataDir)
  await lockData(t, dataDir)
  const isFinishing = await isLeftToFinish(folders)
  if (file !== undefined && !isFinishing) {
    const scratch = await mkdtemp(join(tmpdir(), 'taskwright-carry-over-'))
    t.teardown(() => rm(scratch, { recursive: true, force: true }))
    console.log(`Extracting ${resolve(file)}`)
    await extract(file, folders, scratch)
  }
  if (isFinishing) console.log('Finishing a carry-over that was interrupted')
  else {
    await moveExtracted(folders)
    await carryOver(config, folders)
  }
  await claim(config, folders)
  await retireEarlier(folders)
  console.log(
    `Done. The earlier database is in ${retiredFolder(dataDir)}, and was not changed. Going back to it loses what is written from now on. Start the service, and remove the folder when you no longer need it`,
  )
})

async function carryOver(config: Config, folders: Folders): Promise<void> {
  await expectEarlier(folders)
  await removeUnfinished(folders)
  await expectRoom(folders)
  const started = performance.now()
  const { tables, identity } = await build(config, folders).catch(async (error: unknown) => {
    await removeUnfinished(folders)
    throw error
  })
  await putInPlace(folders, identity)
  for (const { table, rows } of tables) console.log(`${table}: ${rows}`)
  const rows = tables.reduce((sum, { rows }) => sum + rows, 0)
  const seconds = Math.round((performance.now() - started) / 1_000)
  console.log(`Carried over ${rows} rows of ${tables.length} tables in ${seconds} s`)
}

/** Says what is needed. @throws Error if the disk is too small */
async function expectRoom({ dataDir }: Folders): Promise<void> {
  const size = await sizeOf(earlierFolder(dataDir))
  // The copy can double while it is upgraded: 2.8 GiB with a million tasks became 6 GiB.
  const needed = 4 * size + initialBytes + minFreeBytes
  const free = await freeBytesOf(dataDir)
  const [sizeText, neededText, freeText, memoryText] = [size, needed, free, process.availableMemory()].map(
    (bytes) => `${Math.ceil(bytes / 1_048_576)} MiB`,
  )
  console.log(
    `${earlierFolder(dataDir)} has ${sizeText}. To carry it over takes up to ${neededText} of free disk space (${freeText} are free), and ${engineMemory} of memory (${memoryText} are available)`,
  )
  if (free < needed) throw new Error(`The disk with DATA_DIR ${dataDir} is too full. Free up space first`)
}

/** The bytes in the files of a folder. */
async function sizeOf(folder: string): Promise<number> {
  let size = 0
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) size += (await stat(join(entry.parentPath, entry.name))).size
  return size
}

interface Built {
  readonly tables: readonly WrittenTable[]
  /** Null if the files did not belong to the earlier database. */
  readonly identity: Identity | null
}

/** Makes the new database, which does not run any more then. */
async function build(config: Config, { dataDir, copy, built }: Folders): Promise<Built> {
  console.log(`Copying ${earlierFolder(dataDir)}`)
  await mkdir(built, { recursive: true, mode: 0o700 })
  await cp(earlierFolder(dataDir), copy, {
    recursive: true,
    // DATA_DIR may have a link to the folder.
    dereference: true,
    mode: constants.COPYFILE_FICLONE,
  })
  console.log('Upgrading the copy, and writing its rows to a new database')
  return withEngine(copy, (from) =>
    withTeardowns(async (t) => {
      const storage = await openStorage(config)
      t.teardown(() => storage.close())
      const earlier = openDatabase(from)
      const conflict = ownershipConflict(await ownershipOf(earlier, storage).finally(() => earlier.close()))
      if (conflict !== null) console.log(`${conflict}; run npm run doctor for help`)
      const to = await startStopped(t, { dataDir: built, postgresBin: config.postgresBin })
      const db = openDatabase(to)
      t.teardown(() => db.close())
      const tables = await copyDatabase(from, to, { lines: fetchedLines })
      const identity = await restartHistoryIfCopied(db)
      return { tables, identity: conflict === null ? identity : null }
    }),
  )
}

/** Gives the files to the new database. */
async function claim(config: Config, folders: Folders): Promise<void> {
  const identity = await readOwner(folders)
  if (identity === null) return
  const storage = await openStorage(config)
  await claimFiles(storage, identity).finally(() => storage.close())
}
