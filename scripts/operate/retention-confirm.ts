import { readConfig } from '../../src/config/config.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { confirmClock } from '../../src/db/shared/retention.ts'
import { openConfigured } from './configured-database.ts'
import { runToEnd } from '../run/run-to-end.ts'

/**
 * Confirms that the clock of the database is right, after the service was stopped for days or the clock was wrong:
 *
 *     npm run admin -- retention confirm
 *
 * The next cleanup then deletes what is older than its retention.
 */

const deadline = 120_000

await runToEnd('retention confirm', deadline, async (t) => {
  const db = openDatabase(await openConfigured(t, readConfig()))
  t.teardown(() => db.close())
  await confirmClock(db)
  console.log('Confirmed. The next cleanup deletes what is older than its retention.')
})
