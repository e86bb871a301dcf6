import { builtStatement } from './engine/built-statement.ts'
import { eq } from './schema/drizzle.ts'
import { users } from './schema/tables.ts'

/** Members of projects and teams. */

/** A member as JSON text, with the version of their role. */
export interface MemberRow {
  readonly json: string
  readonly version: number
}

/** Locks a user against being deleted, before what they become a member of. */
export const lockUser = builtStatement('users.lock_to_use', { id: 'uuid' }, (db, p) =>
  db.select({ id: users.id }).from(users).where(eq(users.id, p.id)).for('key share'),
)

/** The row that a transaction has locked or written. */
export const expectRow = <R>([row]: readonly R[]): R => {
  if (row === undefined) throw new Error('The written row is gone')
  return row
}
