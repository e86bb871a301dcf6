import { withTimeout } from '../../concurrency/deadline.ts'
import { runAs, type Work } from '../../concurrency/work.ts'
import type { Database } from '../engine/client.ts'
import { sql } from '../schema/drizzle.ts'
import { DatabaseUnavailable } from '../engine/errors.ts'
import { statement } from '../statements/statement.ts'

const probe = statement('health.probe', {}, {}, () => sql`select`)

/** Milliseconds. Readiness probes have short timeouts themselves. */
const deadline = 2_000

/** Its own caller, so that requests from the same network do not affect readiness. */
const health = (): Work => ({ caller: 'health', isAbandoned: () => false, sent: [] })

/**
 * Resolves when the database responds. A read-only database counts as available: reads still work.
 *
 * @throws DatabaseUnavailable
 */
export const checkConnection = async (db: Database): Promise<void> => {
  const answer = runAs(health(), () => probe(db, {}))
  await withTimeout(deadline, answer, () => new DatabaseUnavailable())
}
