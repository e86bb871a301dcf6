import { sql } from 'drizzle-orm'
import type { Database } from './client.ts'
import { statement } from './statement.ts'

const probe = statement({}, {}, () => sql`select`)

/**
 * Resolves when the database answers.
 *
 * @throws DatabaseUnavailable
 */
export const checkConnection = async (db: Database): Promise<void> => {
  await probe(db, {})
}
