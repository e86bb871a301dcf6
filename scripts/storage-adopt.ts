import { readConfig } from '../src/config/config.ts'
import { openDatabase } from '../src/db/engine/client.ts'
import { restartHistory, restartHistoryIfCopied } from '../src/db/task-changes.ts'
import { claimFiles } from '../src/jobs/ownership.ts'
import { openStorage } from '../src/storage/open.ts'
import { openConfigured } from './configured-database.ts'
import { runToEnd } from './run-to-end.ts'

/**
 * Gives the files of the storage to the database, as the service is configured:
 *
 *     npm run storage:adopt
 *
 * It is for a database that was restored or moved. From then on a background job removes every file that no row of it names, so
 * look first with `npm run storage:check`. Clients that synchronize start over, since what they know may be of a later state than
 * the one that was restored. With the embedded database the service has to be stopped.
 */

const deadline = 120_000

await runToEnd('storage:adopt', deadline, async (t) => {
  const config = readConfig()
  const db = openDatabase(await openConfigured(t, config))
  t.teardown(() => db.close())
  const storage = await openStorage(config)
  t.teardown(() => storage.close())
  // A physical copy cannot tell that it is one.
  await db.run(restartHistory, [])
  await claimFiles(storage, await restartHistoryIfCopied(db))
  console.log(
    'The files now belong to this database. The next cleanup deletes those that it does not refer to. Clients that synchronize start over.',
  )
})
