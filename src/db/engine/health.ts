import { withTimeout } from '../../concurrency/deadline.ts'
import { runAs, type Work } from '../../concurrency/work.ts'
import type { Database } from './client.ts'
import { sql } from '../schema/drizzle.ts'
import { DatabaseUnavailable } from './errors.ts'
import { statement } from './statement.ts'

const probe = statement('health.probe', {}, {}, () => sql`select`)

/** Milliseconds: whoever asks for readiness does not wait for long either. */
const deadline = 2_000

/** A principal of its own: readiness does not depend on who else asks from the same network. */
const health = (): Work => ({ principal: 'health', isAbandoned: () => false, sent: [] })

/**
 * Resolves when the database answers. One that takes no writes answers too: reads go on.
 *
 * @throws DatabaseUnavailable
 */
export const checkConnection = async (db: Database): Promise<void> => {
  const answer = runAs(health(), () => probe(db, {}))
  await withTimeout(deadline, answer, () => new DatabaseUnavailable())
}
