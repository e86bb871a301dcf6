import { existsSync } from 'node:fs'
import { readConfig } from '../src/config/config.ts'
import { type Database, openDatabase } from '../src/db/engine/client.ts'
import { FolderInUse } from '../src/db/engine/embedded.ts'
import { countFileDeletions } from '../src/db/files.ts'
import { attachmentsWithoutFiles, filesWithoutRows } from '../src/jobs/inventory.ts'
import { ownershipOf, ownershipConflict } from '../src/jobs/ownership.ts'
import { filesFolder, openStorage } from '../src/storage/open.ts'
import type { Storage } from '../src/storage/storage.ts'
import { jobTimes } from '../src/jobs/registry.ts'
import { openConfigured } from './configured-database.ts'
import { runToEnd, type Teardown } from './run-to-end.ts'

/**
 * Compares the rows of attachments with the files of the storage, as the service is configured, and changes nothing:
 *
 *     npm run storage:check
 *
 * Exits with 0 when all is well, with 1 when an attachment has lost its file or something is left over that a background job
 * should have removed, and with 2 when it could not look.
 */

const deadline = 24 * 3_600_000

/** How old what is left over may get before something is wrong: as long as a background job leaves it alone. */
const graceSeconds = jobTimes.grace / 1_000

const secondsSince = (time: Date): number => Math.max(0, Math.floor((Date.now() - time.getTime()) / 1_000))

const ageText = (seconds: number): string => {
  if (seconds < 120) return `${seconds} s`
  return seconds < 7_200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3_600)} h`
}

/** Says what was found of one kind, and how much of it is wrong. */
const summarize = (what: string, found: number, wrong: number): number => {
  console.log(`${what}: ${found}${found > wrong ? ` (${found - wrong} of them may be in use)` : ''}`)
  return wrong
}

const checkRows = async (db: Database, storage: Storage): Promise<number> => {
  let lost = 0
  for await (const ids of attachmentsWithoutFiles(db, storage)) {
    for (const id of ids) console.log(`  attachment ${id}: its file is missing; downloading it returns 410`)
    lost += ids.length
  }
  return summarize('attachments without their file', lost, lost)
}

const checkFiles = async (db: Database, storage: Storage): Promise<number> => {
  let [found, wrong] = [0, 0]
  for await (const files of filesWithoutRows(db, storage.list())) {
    for (const { key, modifiedAt } of files) {
      const age = secondsSince(modifiedAt)
      const isOld = age > graceSeconds
      found += 1
      if (isOld) wrong += 1
      const fate = isOld ? 'a background job will delete it' : 'its upload may be in progress'
      console.log(`  file ${key}: no attachment refers to it, ${ageText(age)} old; ${fate}`)
    }
  }
  return summarize('files without an attachment', found, wrong)
}

const checkUnfinished = async (db: Database, storage: Storage): Promise<number> => {
  let [found, wrong] = [0, 0]
  for await (const files of filesWithoutRows(db, storage.listUnfinished())) {
    for (const { key, modifiedAt } of files) {
      const age = secondsSince(modifiedAt)
      const isOld = age > graceSeconds
      found += 1
      if (isOld) wrong += 1
      const fate = isOld ? 'abandoned; a background job will delete it' : 'its upload may be in progress'
      console.log(`  unfinished file ${key}: last written to ${ageText(age)} ago; ${fate}`)
    }
  }
  return summarize('unfinished files without an upload', found, wrong)
}

const checkOutbox = async (db: Database): Promise<number> => {
  const { count, seconds } = await countFileDeletions(db)
  if (count > 0)
    console.log(`  the oldest has waited for ${ageText(seconds)}; a background job will delete it`)
  return summarize('files of deleted attachments', count, seconds > graceSeconds ? count : 0)
}

const check = async (t: Teardown): Promise<number> => {
  const config = readConfig()
  const { storageUrl, databaseUrl, dataDir } = config
  const folder = filesFolder(config)
  if (storageUrl === null && !existsSync(folder)) throw new Error(`the folder ${folder} does not exist`)
  const db = openDatabase(await openConfigured(t, config))
  t.teardown(() => db.close())
  const storage = await openStorage(config)
  t.teardown(() => storage.close())
  console.log(`rows:  ${databaseUrl === null ? `the embedded database in ${dataDir}` : 'DATABASE_URL'}`)
  console.log(`files: ${storageUrl === null ? folder : `the bucket ${storageUrl.bucket} (STORAGE_URL)`}`)
  const reason = ownershipConflict(await ownershipOf(db, storage))
  if (reason !== null)
    console.log(
      `${reason}, so a background job deletes no unreferenced files. To assign them to this database, run npm run storage:adopt.`,
    )
  return (
    (reason === null ? 0 : 1) +
    (await checkRows(db, storage)) +
    (await checkFiles(db, storage)) +
    (await checkUnfinished(db, storage)) +
    (await checkOutbox(db))
  )
}

const fail = (error: unknown): void => {
  const advice =
    error instanceof FolderInUse ? '; stop the service first (not necessary with DATABASE_URL)' : ''
  console.error(`storage:check: ${error instanceof Error ? error.message : String(error)}${advice}`)
  process.exitCode = 2
}

await runToEnd('storage:check', deadline, async (t) => {
  try {
    const wrong = await check(t)
    console.log(wrong === 0 ? 'No problems found.' : `Problems found: ${wrong}`)
    process.exitCode = wrong === 0 ? 0 : 1
  } catch (error) {
    fail(error)
  }
})
