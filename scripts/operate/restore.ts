import { statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { readConfig } from '../../src/config/config.ts'
import { makeDataDir } from '../../src/process/data-dir.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { startEmbedded } from '../../src/db/engine/embedded.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { restartHistory } from '../../src/db/task-changes.ts'
import { readArchive, syncFolder } from './archive.ts'
import { exitWithError, lockData } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { runToEnd } from '../run/run-to-end.ts'

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

helpIfAsked(usage)

await runToEnd('restore', deadline, async (t) => {
  const [file, ...more] = process.argv.slice(2)
  if (file === undefined || more.length > 0) throw new Error(usage)
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new Error(`There is no file ${resolve(file)}. ${usage}`)
  const { dataDir, databaseUrl } = readConfig()
  if (databaseUrl !== null)
    throw new Error('DATABASE_URL is set: a backup can only be restored to the embedded database')
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
  await restartHistoryIn(unfinished)
  const version = await readFile(join(unfinished, 'postgres', 'PG_VERSION'), 'utf8')
  // The database is moved last, so an interrupted restore never leaves a database without its files.
  const names = (await readdir(unfinished)).toSorted(
    (a, b) => Number(a === 'postgres') - Number(b === 'postgres'),
  )
  for (const name of names) await rename(join(unfinished, name), join(dataDir, name))
  await syncFolder(dataDir)
  console.log(`${dataDir}: ${files} files, PostgreSQL ${version.trim()}; you can now start the service`)
})

/** Clients may have synchronized changes made after the backup, so they must synchronize from the beginning. */
async function restartHistoryIn(dataDir: string): Promise<void> {
  const embedded = await startEmbedded({
    dataDir,
    log: { info: console.error, warn: console.error },
    onFailure: exitWithError,
  })
  try {
    await migrate(embedded.connection)
    const db = openDatabase(embedded.connection)
    await db.run(restartHistory, []).finally(() => db.close())
  } finally {
    await embedded.close()
  }
}
