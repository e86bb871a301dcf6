import type { SessionPrincipal } from '../../domain/shared/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { and, eq, isNull, sql } from '../schema/drizzle.ts'
import { secondFactors, sessions, users } from '../schema/tables.ts'
import { isRecent } from '../shared/recent.ts'
import { lockToChange } from './users.ts'

/** A user's second factor. */
export interface SecondFactor {
  readonly userId: string
  /** The sealed TOTP secret. */
  readonly secret: Buffer
  readonly isConfirmed: boolean
}

/** What a change of a user's credentials depends on. */
export interface AccountFacts {
  readonly id: string
  readonly username: string
  readonly email: string
  /** Null without a password. */
  readonly passwordHash: string | null
  /** Whether an operator has exempted the account from OIDC_ONLY. */
  readonly mayUsePassword: boolean
  readonly isDisabled: boolean
  /** Confirmed or not. */
  readonly secondFactor: SecondFactor | null
}

const factColumns = {
  id: users.id,
  username: users.username,
  email: users.email,
  password_hash: users.password_hash,
  may_use_password: users.may_use_password,
  is_disabled: users.is_disabled,
  secret: secondFactors.secret,
  confirmed_at: secondFactors.confirmed_at,
}

const selectFacts = builtStatement('users.select_account', { id: 'uuid' }, (db, p) =>
  db
    .select(factColumns)
    .from(users)
    .leftJoin(secondFactors, eq(secondFactors.user_id, users.id))
    .where(and(eq(users.id, p.id), isNull(users.deleted_at))),
)

interface FactRow {
  readonly id: string
  readonly username: string
  readonly email: string
  readonly password_hash: string | null
  readonly may_use_password: boolean
  readonly is_disabled: boolean
  readonly secret: Buffer | null
  readonly confirmed_at: string | null
}

const readFacts = ({ id, username, email, secret, confirmed_at, ...row }: FactRow) => ({
  id,
  username,
  email,
  passwordHash: row.password_hash,
  mayUsePassword: row.may_use_password,
  isDisabled: row.is_disabled,
  secondFactor: secret && { userId: id, secret, isConfirmed: confirmed_at !== null },
})

/**
 * Locks an account, and reads it under the lock, unless its user is deleted. Whatever decides who gets into it locks its user: signing in,
 * and what ends access, such as a new password.
 */
export const lockAccount = async ({ db }: TransactionContext, id: string): Promise<AccountFacts | null> => {
  const { facts } = await pipeline(db, {
    lock: () => lockToChange(db, { id }),
    facts: () => selectFacts(db, { id }),
  })
  const [row] = facts
  return row === undefined ? null : readFacts(row)
}

declare const own: unique symbol

/** The account of a caller whose session lives. */
export type OwnAccount = AccountFacts & {
  /** Whether the session has authenticated recently. */
  readonly isProven: boolean
  readonly [own]: true
}

const selectOwn = builtStatement('users.select_own_account', { id: 'uuid', session_id: 'uuid' }, (db, p) =>
  db
    .select({ ...factColumns, is_proven: sql<boolean>`${isRecent(sessions.authenticated_at)}` })
    .from(users)
    .innerJoin(sessions, and(eq(sessions.id, p.session_id), eq(sessions.user_id, users.id)))
    .leftJoin(secondFactors, eq(secondFactors.user_id, users.id))
    .where(
      and(
        eq(users.id, p.id),
        isNull(users.deleted_at),
        eq(users.is_disabled, false),
        sql`${sessions.expires_at} > now()`,
      ),
    ),
)

/**
 * Locks the caller's account, and reads it under the lock. Null when the session that authenticated the request has ended meanwhile:
 * who is shut out of an account must not leave a credential behind.
 */
export const lockOwnAccount = async ({
  db,
  principal: { userId: id, credential },
}: TransactionContext<SessionPrincipal>): Promise<OwnAccount | null> => {
  const { facts } = await pipeline(db, {
    lock: () => lockToChange(db, { id }),
    facts: () => selectOwn(db, { id, session_id: credential.sessionId }),
  })
  const [row] = facts
  return row === undefined ? null : ({ ...readFacts(row), isProven: row.is_proven } as OwnAccount)
}

const updateHash = builtStatement('users.rehash_password', { id: 'uuid', hash: 'text' }, (db, p) =>
  db.update(users).set({ password_hash: p.hash }).where(eq(users.id, p.id)),
)

/** Replaces the hash of the same password by one with the current parameters. */
export const rehashPassword = async (
  { db }: TransactionContext,
  { id }: AccountFacts,
  hash: string,
): Promise<void> => {
  await updateHash(db, { id, hash })
}
