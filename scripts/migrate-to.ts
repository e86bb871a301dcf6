import { readConfig } from '../src/config.ts'
import { copyDatabase } from '../src/db/copy.ts'
import { openConfigured } from './configured-database.ts'
import { runToEnd } from './run-to-end.ts'

/**
 * Copies the embedded database of DATA_DIR to a PostgreSQL server, whose database has to be empty:
 *
 *     npm run migrate:to -- postgres://user:password@host:5432/taskwright
 *
 * The service has to be stopped, and is then started with that DATABASE_URL and the same DATA_DIR, which keeps the
 * attachments and the secret. The embedded database stays as it was.
 */

const deadline = 24 * 3_600_000

await runToEnd('migrate:to', deadline, async (t) => {
  const [url = '', ...more] = process.argv.slice(2)
  if (url === '' || more.length > 0) throw new Error('Usage: npm run migrate:to -- postgres://…')
  const { dataDir } = readConfig()
  const { databaseUrl } = readConfig({ DATABASE_URL: url })
  if (databaseUrl === null) throw new Error('The URL of the new database is missing')
  const from = await openConfigured(t, { databaseUrl: null, dataDir })
  for (const { table, rows } of await copyDatabase(from, { kind: 'server', url: databaseUrl }))
    console.log(`${table}: ${rows}`)
  console.log('Everything is there. Start the service with this DATABASE_URL and the same DATA_DIR.')
})
