import { users } from '../schema/tables.ts'
import { rowLock } from '../statements/row-statements.ts'

/** Members of projects and teams. */

/** A member as JSON text, with the version of their role. */
export interface MemberRow {
  readonly json: string
  readonly version: number
}

/** Locks a user against being deleted, before what they become a member of. */
export const lockUser = rowLock('users.lock_to_use', users, 'key share')
