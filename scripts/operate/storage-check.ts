import { readConfig } from '../../src/config/config.ts'
import { type Database, openDatabase } from '../../src/db/engine/client.ts'
import { isMissing } from '../../src/data-dir/folder.ts'
import { countFileDeletions } from '../../src/db/files/deletions.ts'
import { attachmentsWithoutFiles, filesWithoutRows } from '../../src/jobs/inventory.ts'
import { ownershipOf, ownershipConflict } from '../../src/jobs/ownership.ts'
import { filesFolder, openStorage } from '../../src/storage/open.ts'
import type { Storage } from '../../src/storage/storage.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { openConfigured } from './configured-database.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Compares attachments in the configured database with files in the configured storage, and changes nothing:
 *
 *     npm run admin -- storage check
 *
 * Exit codes: 0 if there are no problems; 1 if the file of an attachment is missing, or a background job should have deleted a file
 * already; 2 if the check failed.
 */

const deadline = 24 * 3_600_000

/** The age below which background jobs do not delete unreferenced files. An older file is a problem. */
const graceSeconds = jobTimes.grace / 1_000

const secondsBetween = (time: Date, now: Date): number =>
  Math.max(0, Math.floor((now.getTime() - time.getTime()) / 1_000))

const ageText = (seconds: number): string => {
  if (seconds < 120) return `${seconds} s`
  return seconds < 7_200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3_600)} h`
}

/** Prints the number of files of a kind. Returns how many of them are problems. */
const summarize = (kind: string, found: number, problems: number): number => {
  console.log(`${kind}: ${found}${found > problems ? ` (${found - problems} of them may be in use)` : ''}`)
  return problems
}

const checkRows = async (db: Database, storage: Storage): Promise<number> => {
  let missing = 0
  for await (const ids of attachmentsWithoutFiles(db, storage)) {
    for (const id of ids) console.log(`  attachment ${id}: its file is missing; downloading it returns 410`)
    missing += ids.length
  }
  return summarize('attachments without their file', missing, missing)
}

/** Prints each file to which no row refers. `describe` receives its age as a text, and whether it is a problem. */
const checkListed = async (
  db: Database,
  storage: Storage,
  kind: string,
  files: ReturnType<Storage['list']>,
  describe: (key: string, age: string, isOld: boolean) => string,
): Promise<number> => {
  let [found, problems] = [0, 0]
  const now = await storage.now()
  for await (const batch of filesWithoutRows(db, files)) {
    for (const { key, modifiedAt } of batch) {
      const age = secondsBetween(modifiedAt, now)
      const isOld = age > graceSeconds
      found += 1
      if (isOld) problems += 1
      console.log(`  ${describe(key, ageText(age), isOld)}`)
    }
  }
  return summarize(kind, found, problems)
}

const inProgress = 'its upload may be in progress'

const checkFiles = (db: Database, storage: Storage): Promise<number> =>
  checkListed(db, storage, 'files without an attachment', storage.list(), (key, age, isOld) => {
    const fate = isOld ? 'a background job will delete it' : inProgress
    return `file ${key}: no attachment refers to it, ${age} old; ${fate}`
  })

const checkUnfinished = (db: Database, storage: Storage): Promise<number> =>
  checkListed(
    db,
    storage,
    'unfinished files without an upload',
    storage.listUnfinished(),
    (key, age, isOld) => {
      const fate = isOld ? 'abandoned; a background job will delete it' : inProgress
      return `unfinished file ${key}: last written to ${age} ago; ${fate}`
    },
  )

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
  if (storageUrl === null && (await isMissing(folder))) throw new Error(`the folder ${folder} does not exist`)
  const db = openDatabase(await openConfigured(t, config))
  t.teardown(() => db.close())
  const storage = await openStorage(config)
  t.teardown(() => storage.close())
  console.log(`rows:  ${databaseUrl === null ? `the database in ${dataDir}` : 'DATABASE_URL'}`)
  console.log(`files: ${storageUrl === null ? folder : `the bucket ${storageUrl.bucket} (STORAGE_URL)`}`)
  const reason = ownershipConflict(await ownershipOf(db, storage))
  if (reason !== null)
    console.log(
      `${reason}, so a background job deletes no unreferenced files. To assign them to this database, run npm run admin -- storage adopt.`,
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
  console.error(`storage check: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 2
}

await runToEnd('storage check', deadline, async (t) => {
  try {
    const problems = await check(t)
    console.log(problems === 0 ? 'No problems found.' : `Problems found: ${problems}`)
    process.exitCode = problems === 0 ? 0 : 1
  } catch (error) {
    fail(error)
  }
})
