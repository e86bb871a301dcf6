import type { Authorized, Principal, SessionPrincipal } from '../../domain/shared/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { firstRow } from '../statements/row-statements.ts'
import { takeOneTimeToken } from './one-time-tokens.ts'
import { and, eq, isNull, sql } from '../schema/drizzle.ts'
import { oneTimeTokens, users } from '../schema/tables.ts'
import { lockToChange, type UserFacts } from './users.ts'

const selectHash = builtStatement('users.select_password', { id: 'uuid' }, (db, p) =>
  db
    .select({ passwordHash: users.password_hash, mayUsePassword: users.may_use_password })
    .from(users)
    .where(and(eq(users.id, p.id), isNull(users.deleted_at), eq(users.is_disabled, false))),
)

/** The password of an account. */
interface AccountPassword {
  /** Null without a password. */
  readonly passwordHash: string | null
  /** Whether an operator has exempted the account from OIDC_ONLY. */
  readonly mayUsePassword: boolean
}

/** The caller's password; null if they were disabled or deleted since they were authenticated. */
export const selectOwnPassword = async ({
  db,
  principal,
}: StatementContext<SessionPrincipal>): Promise<AccountPassword | null> =>
  firstRow(await selectHash(db, { id: principal.userId }))

const setUse = builtStatement('users.set_password_use', { id: 'uuid', is_allowed: 'bool' }, (db, p) =>
  db.update(users).set({ may_use_password: p.is_allowed }).where(eq(users.id, p.id)),
)

/** Exempts an account from OIDC_ONLY, or ends that. */
export const setPasswordUse = async (
  { db }: TransactionContext<Principal>,
  { id }: Authorized<'user.set_password', UserFacts>,
  isAllowed: boolean,
): Promise<void> => {
  await setUse(db, { id, is_allowed: isAllowed })
}

const update = builtStatement('users.set_password', { id: 'uuid', password_hash: 'text' }, (db, p) =>
  db.update(users).set({ password_hash: p.password_hash }).where(eq(users.id, p.id)),
)

/** Stores the hash of the password of the caller, or of the user of a token, who are locked. */
export const setOwnPassword = async (
  { db }: TransactionContext,
  userId: string,
  newHash: string,
): Promise<void> => {
  await update(db, { id: userId, password_hash: newHash })
}

/** Stores the hash of the password of another user. */
export const setPasswordOf = async (
  { db }: TransactionContext<Principal>,
  { id }: Authorized<'user.set_password', UserFacts>,
  newHash: string,
): Promise<void> => {
  await update(db, { id, password_hash: newHash })
}

/** Locks a user, and uses their token to reset the password up. False if it was used or has expired. */
export const takeResetToken = async (
  tx: TransactionContext,
  { userId, hash }: { readonly userId: string; readonly hash: Buffer },
): Promise<boolean> => {
  const { token } = await pipeline(tx.db, {
    lock: () => lockToChange(tx.db, { id: userId }),
    token: () => takeOneTimeToken(tx, { purpose: 'reset_password', hash }),
  })
  return token !== null
}

const lockByEmail = builtStatement('users.lock_by_email', { email: 'text' }, (db, p) =>
  db.select({ id: users.id }).from(users).where(eq(users.email, p.email)).for('no key update'),
)

const selectByEmail = builtStatement('users.select_resets', { email: 'text' }, (db, p) =>
  db
    .select({
      id: users.id,
      passwordHash: users.password_hash,
      mayUsePassword: users.may_use_password,
      mails: sql<number>`count(${oneTimeTokens.hash})::int`,
    })
    .from(users)
    .leftJoin(
      oneTimeTokens,
      and(
        eq(oneTimeTokens.user_id, users.id),
        eq(oneTimeTokens.purpose, 'reset_password'),
        sql`${oneTimeTokens.created_at} > now() - interval '1 hour'`,
      ),
    )
    .where(eq(users.email, p.email))
    .groupBy(users.id),
)

/** Locks the user with an address, and reads how many emails to reset the password they were sent in the last hour. */
export const lockUserByEmail = async (
  { db }: TransactionContext,
  email: string,
): Promise<(AccountPassword & { readonly id: string; readonly mails: number }) | null> => {
  const { rows } = await pipeline(db, {
    lock: () => lockByEmail(db, { email }),
    rows: () => selectByEmail(db, { email }),
  })
  return firstRow(rows)
}
