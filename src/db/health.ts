import { within } from '../domain/deadline.ts'
import type { Database } from './client.ts'
import { sql } from './drizzle.ts'
import { DatabaseUnavailable } from './errors.ts'
import { statement } from './statement.ts'

const probe = statement({}, {}, () => sql`select`)

/** Milliseconds: whoever asks for readiness does not wait for long either. */
const deadline = 2_000

/**
 * Resolves when the database answers.
 *
 * @throws DatabaseUnavailable
 */
export const checkConnection = async (db: Database): Promise<void> => {
  await within(deadline, probe(db, {}), () => new DatabaseUnavailable())
}
