import type { Principal } from '../../domain/shared/permissions.ts'
import { and, eq, isNull } from '../schema/drizzle.ts'
import { users } from '../schema/tables.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { TransactionContext } from '../statements/context.ts'
import { CallerGone } from '../engine/errors.ts'
import type { Transaction } from '../engine/transaction.ts'

// Its condition holds for the row as it is when it is locked.
const lock = builtStatement('users.lock_caller', { id: 'uuid' }, (db, p) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, p.id), isNull(users.deleted_at), eq(users.is_disabled, false)))
    .for('key share'),
)

/**
 * Locks the caller against deletion. A transaction that adds rows which refer to the caller begins with it, because users are locked
 * before projects: the foreign key alone would lock them last.
 *
 * @throws CallerGone
 */
export const lockCaller = ({ db, principal }: TransactionContext<Principal>): Promise<void> | null =>
  // The shell has no account.
  principal.credential.kind === 'shell' ? null : expectLocked(db, principal.userId)

const expectLocked = async (db: Transaction, id: string): Promise<void> => {
  const rows = await lock(db, { id })
  if (rows.length === 0) throw new CallerGone()
}
