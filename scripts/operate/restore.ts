import { statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Config, readConfig } from '../../src/config/config.ts'
import { makeDataDir } from '../../src/process/data-dir.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { restartHistory } from '../../src/db/task-changes.ts'
import { syncFolder } from '../../src/postgres/cluster.ts'
import { readArchive } from './archive.ts'
import { lockData, startStopped } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { runToEnd, withTeardowns } from '../run/run-to-end.ts'

/**
 * Restores a file of `npm run backup` to DATA_DIR, which must be empty or missing:
 *
 *     DATA_DIR=./data npm run restore -- /backups/taskwright.tar
 *
 * The whole file is verified before anything is moved into place.
 */

const deadline = 24 * 3_600_000

const usage = `Usage: npm run restore -- <file of npm run backup>

Restores a backup to DATA_DIR, which must be empty or missing.`

/** Files of the PostgreSQL that was started to prepare the database. */
const leftOut = new Set(['lock', 'postgresql.lock', 'libraries'])

helpIfAsked(usage)

await runToEnd('restore', deadline, async (t) => {
  const [file, ...more] = process.argv.slice(2)
  if (file === undefined || more.length > 0) throw new Error(usage)
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new Error(`There is no file ${resolve(file)}. ${usage}`)
  const { dataDir, databaseUrl, postgresBin } = readConfig()
  if (databaseUrl !== null)
    throw new Error(
      'DATABASE_URL is set: a backup can only be restored to DATA_DIR, for the database that the service starts itself',
    )
  await makeDataDir(dataDir)
  await lockData(t, dataDir)
  const found = (await readdir(dataDir)).filter((name) => name !== 'lock')
  if (found.length > 0)
    throw new Error(
      `DATA_DIR ${dataDir} is not empty: it contains ${found.join(', ')}. Restore to another DATA_DIR, or move these files away`,
    )

  const scratch = await mkdtemp(join(tmpdir(), 'taskwright-restore-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  // Inside DATA_DIR: a rename works only within a file system.
  const unfinished = join(dataDir, 'restoring')
  await mkdir(unfinished, { mode: 0o700 })
  t.teardown(() => rm(unfinished, { recursive: true, force: true }))

  const files = await readArchive(file, unfinished, scratch)
  if ((await readdir(unfinished)).includes('postgres'))
    throw new Error(
      `${resolve(file)} was written by Taskwright 0.1 or 0.2. "npm run carry-over" writes its data to a database of this version`,
    )
  await restartHistoryIn({ dataDir: unfinished, postgresBin })
  // The database is moved last, so an interrupted restore never leaves a database without its files.
  const names = (await readdir(unfinished)).filter((name) => !leftOut.has(name))
  const last = (name: string): number => Number(name === 'postgresql')
  for (const name of names.toSorted((a, b) => last(a) - last(b)))
    await rename(join(unfinished, name), join(dataDir, name))
  await syncFolder(dataDir)
  console.log(`${dataDir}: ${files} files; you can now start the service`)
})

/** Clients may have synchronized changes made after the backup, so they must synchronize from the beginning. */
function restartHistoryIn(config: Pick<Config, 'dataDir' | 'postgresBin'>): Promise<void> {
  return withTeardowns(async (t) => {
    const connection = await startStopped(t, config)
    await migrate(connection)
    const db = openDatabase(connection)
    await db.run(restartHistory, []).finally(() => db.close())
  })
}
