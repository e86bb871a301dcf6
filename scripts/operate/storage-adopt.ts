import { readConfig } from '../../src/config/config.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { restartHistory, restartHistoryIfCopied } from '../../src/db/activity/task-changes.ts'
import { claimFiles } from '../../src/jobs/ownership.ts'
import { openStorage } from '../../src/storage/open.ts'
import { openConfigured } from './configured-database.ts'
import { runToEnd } from '../run/run-to-end.ts'

/**
 * Assigns the files of the configured storage to the configured database:
 *
 *     npm run admin -- storage adopt
 *
 * Run it after the database was restored or moved. A background job then deletes every file that this database does not refer to,
 * so run `npm run admin -- storage check` first. Clients must synchronize from the beginning, because they may have seen changes made after
 * the backup.
 */

const deadline = 120_000

await runToEnd('storage adopt', deadline, async (t) => {
  const config = readConfig()
  const db = openDatabase(await openConfigured(t, config))
  t.teardown(() => db.close())
  const storage = await openStorage(config)
  t.teardown(() => storage.close())
  // A physical copy has the same history as the original, so the history must change here.
  await db.run(restartHistory, [])
  await claimFiles(storage, await restartHistoryIfCopied(db))
  console.log(
    'The files now belong to this database. The next cleanup deletes those that it does not refer to. Clients that synchronize start over.',
  )
})
