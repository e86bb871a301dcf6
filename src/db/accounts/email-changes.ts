import { builtStatement } from '../statements/built-statement.ts'
import type { TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import {
  countOneTimeTokens,
  insertOneTimeToken,
  takeOneTimeToken,
  voidOneTimeTokens,
  voidUndoTokens,
} from './one-time-tokens.ts'
import { eq, sql } from '../schema/drizzle.ts'
import { users } from '../schema/tables.ts'
import { touched } from '../shared/touch.ts'
import { type ChangeableUser, lockToRename } from './users.ts'

/** Each change sends an email to the address before. */
const maxChangesPerDay = 5
const day = 86_400

/** Whether a user has changed their own address too often. */
export const hasChangedEmailOften = async (
  tx: TransactionContext,
  { id }: ChangeableUser,
): Promise<boolean> =>
  (await countOneTimeTokens(tx, { userId: id, purpose: 'undo_email', period: day })) >= maxChangesPerDay

const undoLifetime = 7 * day

/**
 * Voids what was sent to the address that a user leaves. `undoHash` is that of a token that restores the address, which stays reserved
 * until then; null if there is none.
 */
export const leaveAddress = async (
  tx: TransactionContext,
  { id, email }: ChangeableUser,
  undoHash: Buffer | null,
): Promise<void> => {
  const undoing = { purpose: 'undo_email', userId: id, email, lifetime: undoLifetime } as const
  await pipeline(tx.db, {
    oneTimeTokens: () => voidOneTimeTokens(tx, id),
    token: () => undoHash !== null && insertOneTimeToken(tx, { ...undoing, hash: undoHash }),
  })
}

/** A change of address that is undone: the address before, and when it was changed. */
interface UndoneChange {
  readonly userId: string
  readonly email: string
  readonly changedAt: string
}

/** Locks a user, and uses their token to undo a change of address up. Null if it was used or has expired. */
export const takeUndoToken = async (
  tx: TransactionContext,
  { userId, hash }: { readonly userId: string; readonly hash: Buffer },
): Promise<UndoneChange | null> => {
  const { token } = await pipeline(tx.db, {
    lock: () => lockToRename(tx.db, { id: userId }),
    token: () => takeOneTimeToken(tx, { purpose: 'undo_email', hash }),
  })
  if (token === null || token.email === null) return null
  return { userId, email: token.email, changedAt: token.created_at }
}

const restore = builtStatement(
  'users.restore_email',
  { id: 'uuid', email: 'text', unmatchable_hash: 'text' },
  (db, p) =>
    db
      .update(users)
      .set({
        email: p.email,
        password_hash: sql`case when ${users.password_hash} is not null then ${p.unmatchable_hash} end`,
        ...touched(users),
      })
      .where(eq(users.id, p.id)),
)

/**
 * Restores an address, and invalidates the password; an account without one stays so. The tokens of later changes are deleted too, since the person who changed the
 * address may have them. Those of earlier changes stay: they were sent to previous addresses of the user.
 */
export const restoreAddress = async (
  tx: TransactionContext,
  { userId, email, changedAt }: UndoneChange,
  unmatchableHash: string,
): Promise<void> => {
  await pipeline(tx.db, {
    address: () => restore(tx.db, { id: userId, email, unmatchable_hash: unmatchableHash }),
    undoTokens: () => voidUndoTokens(tx, { userId, since: changedAt }),
  })
}
