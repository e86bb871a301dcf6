import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { firstRow } from '../statements/row-statements.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { retentionTime } from '../shared/retention.ts'
import { and, eq, gte, ne, sql } from '../schema/drizzle.ts'
import { oneTimeTokens } from '../schema/tables.ts'

/** The purpose of a one-time token: completing a sign-in, resetting a password, or undoing a change of email address. */
export type Purpose = 'sign_in' | 'reset_password' | 'undo_email'

const insert = builtStatement(
  'one_time_tokens.insert',
  {
    hash: 'bytes',
    purpose: 'text',
    user_id: 'uuid',
    email: 'text?',
    identity_id: 'uuid?',
    sid: 'text?',
    claims: 'text?',
    lifetime: 'int',
  },
  (db, p) =>
    db.insert(oneTimeTokens).values({
      hash: p.hash,
      purpose: p.purpose,
      user_id: p.user_id,
      email: p.email,
      identity_id: p.identity_id,
      sid: p.sid,
      claims: p.claims,
      expires_at: sql`now() + make_interval(secs => ${p.lifetime})`,
    }),
)

interface NewToken {
  readonly purpose: Purpose
  readonly hash: Buffer
  readonly userId: string
  /** Seconds. */
  readonly lifetime: number
  /** The address that `undo_email` restores. */
  readonly email?: string
  /** For `sign_in`, what was proven instead of the password. */
  readonly identity?: ChallengedBy
}

/** The identity that has proven who somebody is, and the provider's session; null if it has said none. */
export interface ProvenBy {
  readonly id: string
  readonly sid: string | null
}

/** The same, and what the provider has said that completing the sign-in applies, as JSON text. */
export interface ChallengedBy extends ProvenBy {
  readonly claims: string
}

/** Stores a token of a locked user. */
export const insertOneTimeToken = async (
  { db }: TransactionContext,
  { userId, email, identity, ...token }: NewToken,
): Promise<void> => {
  const { id: identity_id = null, sid = null, claims = null } = identity ?? {}
  await insert(db, { ...token, user_id: userId, email: email ?? null, identity_id, sid, claims })
}

const wantedParameters = { purpose: 'text', hash: 'bytes' } as const

/** The unexpired token with the hash. */
const isWanted = (p: Placeholders<typeof wantedParameters>) =>
  and(
    eq(oneTimeTokens.hash, p.hash),
    eq(oneTimeTokens.purpose, p.purpose),
    sql`${oneTimeTokens.expires_at} > now()`,
  )

const select = builtStatement('one_time_tokens.select', wantedParameters, (db, p) =>
  db.select({ user_id: oneTimeTokens.user_id }).from(oneTimeTokens).where(isWanted(p)),
)

interface WantedToken {
  readonly purpose: Purpose
  readonly hash: Buffer
}

/** The id of the user of a token that can be used now; null if there is none. */
export const findUserOfToken = async (
  { db }: StatementContext,
  wanted: WantedToken,
): Promise<string | null> => {
  const [row] = await select(db, wanted)
  return row?.user_id ?? null
}

const take = builtStatement('one_time_tokens.take', wantedParameters, (db, p) =>
  db.delete(oneTimeTokens).where(isWanted(p)).returning({
    email: oneTimeTokens.email,
    identity_id: oneTimeTokens.identity_id,
    sid: oneTimeTokens.sid,
    claims: oneTimeTokens.claims,
    created_at: oneTimeTokens.created_at,
  }),
)

/** What was stored with a token. */
interface TakenToken {
  readonly email: string | null
  readonly identity_id: string | null
  readonly sid: string | null
  readonly claims: string | null
  readonly created_at: string
}

/** Uses a token of a locked user up. Null if it was used or has expired. */
export const takeOneTimeToken = async (
  { db }: TransactionContext,
  wanted: WantedToken,
): Promise<TakenToken | null> => firstRow(await take(db, wanted))

const count = builtStatement(
  'one_time_tokens.count',
  { user_id: 'uuid', purpose: 'text', period: 'int' },
  (db, p) =>
    db
      .select({ stored: sql<number>`count(*)::int` })
      .from(oneTimeTokens)
      .where(
        and(
          eq(oneTimeTokens.user_id, p.user_id),
          eq(oneTimeTokens.purpose, p.purpose),
          sql`${oneTimeTokens.created_at} > now() - make_interval(secs => ${p.period})`,
        ),
      ),
)

/** The number of tokens of a locked user that were stored in the last `period` seconds. */
export const countOneTimeTokens = async (
  { db }: TransactionContext,
  { userId, ...counted }: { readonly userId: string; readonly purpose: Purpose; readonly period: number },
): Promise<number> => {
  const [row] = await count(db, { ...counted, user_id: userId })
  return row?.stored ?? 0
}

const voidTokens = builtStatement('one_time_tokens.void', { user_id: 'uuid' }, (db, p) =>
  db
    .delete(oneTimeTokens)
    .where(and(eq(oneTimeTokens.user_id, p.user_id), ne(oneTimeTokens.purpose, 'undo_email'))),
)

/** Deletes the tokens of a locked user, except those that undo a change of email address. */
export const voidOneTimeTokens = async ({ db }: TransactionContext, userId: string): Promise<void> => {
  await voidTokens(db, { user_id: userId })
}

const voidUndoing = builtStatement(
  'one_time_tokens.void_undoing',
  { user_id: 'uuid', since: 'instant' },
  (db, p) =>
    db
      .delete(oneTimeTokens)
      .where(
        and(
          eq(oneTimeTokens.user_id, p.user_id),
          eq(oneTimeTokens.purpose, 'undo_email'),
          gte(oneTimeTokens.created_at, p.since),
        ),
      ),
)

/** Deletes the tokens of a locked user that undo a change of email address since a time. */
export const voidUndoTokens = async (
  { db }: TransactionContext,
  { userId, since }: { readonly userId: string; readonly since: string },
): Promise<void> => {
  await voidUndoing(db, { user_id: userId, since })
}

/** Deletes expired tokens. Tokens for passwords stay for an hour, since they count towards the hourly limit of emails. */
export const removeExpiredOneTimeTokens = deletionInBatches('one_time_tokens.delete_expired', {
  parameters: {},
  table: oneTimeTokens,
  condition: () => sql`expires_at <= ${retentionTime} - interval '1 hour'`,
})
