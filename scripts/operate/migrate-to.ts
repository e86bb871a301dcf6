import { readConfig } from '../../src/config/config.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { copyDatabase } from '../../src/db/transfer/copy.ts'
import { restartHistoryIfCopied } from '../../src/db/activity/task-changes.ts'
import { claimFiles, ownershipOf, ownershipConflict } from '../../src/jobs/ownership.ts'
import { openStorage } from '../../src/storage/open.ts'
import { expectDatabase, startStopped } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { runToEnd } from '../run/run-to-end.ts'

/**
 * Copies the database in DATA_DIR to an empty database on a PostgreSQL server:
 *
 *     npm run migrate:to -- postgres://user:password@host:5432/taskwright
 *
 * The service must be stopped. Start it afterwards with this DATABASE_URL and the same DATA_DIR, which keeps the attachments and the
 * secret. The files then belong to the new database. The old database does not change.
 */

const deadline = 24 * 3_600_000

const usage = `Usage: npm run migrate:to -- postgres://user:password@host:5432/taskwright

Copies the database in DATA_DIR to an empty database on a PostgreSQL server. Stop the service first.`

helpIfAsked(usage)

await runToEnd('migrate:to', deadline, async (t) => {
  const [url = '', ...more] = process.argv.slice(2)
  if (url === '' || more.length > 0) throw new Error(usage)
  const config = readConfig()
  const { databaseUrl } = readConfig({ DATABASE_URL: url })
  if (databaseUrl === null) throw new Error('The URL of the new database is missing')
  await expectDatabase(config)
  const from = await startStopped(t, config)
  const to = { url: databaseUrl } as const
  const storage = await openStorage(config)
  t.teardown(() => storage.close())
  const [source, target] = [openDatabase(from), openDatabase(to)]
  t.teardown(() => Promise.all([source.close(), target.close()]))
  for (const { table, rows } of await copyDatabase(from, to)) console.log(`${table}: ${rows}`)
  // Files that did not belong to the old database do not belong to the new one.
  const reason = ownershipConflict(await ownershipOf(source, storage))
  if (reason === null) await claimFiles(storage, await restartHistoryIfCopied(target))
  else console.log(`${reason}; run npm run doctor for help.`)
  console.log('Migration complete. Start the service with this DATABASE_URL and the same DATA_DIR.')
})
