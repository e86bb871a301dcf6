import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, rowDeletion } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import { retentionTime } from '../shared/retention.ts'
import { userJson } from '../shared/read-models.ts'
import { aliasedTable, eq, sql } from '../schema/drizzle.ts'
import { refreshTokens, sessions, users } from '../schema/tables.ts'
import { idleLifetime } from './sessions.ts'

const person = aliasedTable(users, 'person')
const session = aliasedTable(sessions, 'session')
const token = aliasedTable(refreshTokens, 'token')
const shown = aliasedTable(refreshTokens, 'shown')
const next = aliasedTable(refreshTokens, 'next')

const insert = builtStatement('refresh_tokens.insert', { hash: 'bytes', session_id: 'uuid' }, (db, p) =>
  db.insert(refreshTokens).values({
    hash: p.hash,
    session_id: p.session_id,
    expires_at: sql`least(now() + ${idleLifetime}, (select ${sessions.expires_at} from sessions where ${sessions.id} = ${p.session_id}))`,
  }),
)

/** Inserts a refresh token of a session that the transaction has inserted or locked. */
export const insertRefreshToken = async (
  { db }: TransactionContext,
  token: { readonly hash: Buffer; readonly sessionId: string },
): Promise<void> => {
  await insert(db, { hash: token.hash, session_id: token.sessionId })
}

/** A session that was started or refreshed. */
export interface StartedSession {
  readonly sessionId: string
  readonly userId: string
  /** The session's user as JSON text. */
  readonly userJson: string
  /** The hash of its refresh token. */
  readonly tokenHash: Buffer
  /** Seconds until the refresh token expires unless it is used. */
  readonly refreshExpiresIn: number
  /** When its current tokens were issued, in milliseconds since the epoch. */
  readonly issuedAt: number
  /** Seconds since then. The database says it: an instance only estimates the database's clock. */
  readonly age: number
}

// Instants have milliseconds, so `now()` is rounded to them.
const selectStarted = statement(
  'refresh_tokens.select_started',
  { hash: 'bytes' },
  {
    session_id: 'text',
    user_id: 'text',
    user_json: 'text',
    expires_in: 'int',
    issued_at: 'int8',
    age: 'int',
  },
  (p) => sql`
    select ${session.id}::text as session_id, ${person.id}::text as user_id,
      ${userJson(person, { caller: sql`${person.id}`, is_admin: sql`false`, in_session: sql`true` })} as user_json,
      floor(extract(epoch from ${token.expires_at} - now()::timestamptz(3)))::int as expires_in,
      (extract(epoch from ${token.created_at}) * 1000)::bigint as issued_at,
      greatest(floor(extract(epoch from now()::timestamptz(3) - ${token.created_at})), 0)::int as age
    from refresh_tokens token
      join sessions session on ${session.id} = ${token.session_id}
      join users person on ${person.id} = ${session.user_id}
    where ${token.hash} = ${p.hash}`,
)

/** The session of a refresh token that the transaction has inserted, or that answers a repeated refresh. */
export const viewStarted = async ({ db }: TransactionContext, tokenHash: Buffer): Promise<StartedSession> => {
  const row = expectRow(await selectStarted(db, { hash: tokenHash }))
  return {
    sessionId: row.session_id,
    userId: row.user_id,
    userJson: row.user_json,
    tokenHash,
    refreshExpiresIn: row.expires_in,
    issuedAt: row.issued_at,
    age: row.age,
  }
}

/** Time for which a spent refresh token still returns its successor. A longer time ahead is from before the clock was set back. */
const reuseGrace = sql.raw(`interval '30 seconds'`)

/** What a refresh depends on. */
export interface RefreshFacts {
  readonly hash: Buffer
  readonly sessionId: string
  readonly userId: string
  /** Whether neither the token nor its session has expired. */
  readonly isLive: boolean
  /** By the time of retention, which no jump of the clock moves on. */
  readonly isExpiredForCertain: boolean
  readonly isSpent: boolean
  /** The hash of the successor that a repeated refresh returns; null when it was used, or the token was spent long ago. */
  readonly repeatable: Buffer | null
}

// The order of all writers: a session, then its tokens.
const lock = builtStatement('sessions.lock_by_token', { hash: 'bytes' }, (db, p) =>
  db
    .select({ id: sessions.id })
    .from(sessions)
    .where(
      eq(
        sessions.id,
        db.select({ id: refreshTokens.session_id }).from(refreshTokens).where(eq(refreshTokens.hash, p.hash)),
      ),
    )
    .for('update'),
)

const selectFacts = statement(
  'refresh_tokens.select_facts',
  { hash: 'bytes', next_hashes: 'text[]' },
  {
    session_id: 'text',
    user_id: 'text',
    is_live: 'bool',
    is_expired_for_certain: 'bool',
    is_spent: 'bool',
    next_hash: 'text?',
  },
  (p) => sql`
    select ${session.id}::text as session_id, ${session.user_id}::text,
      ${shown.expires_at} > now() and ${session.expires_at} > now() as is_live,
      ${shown.expires_at} <= ${retentionTime} as is_expired_for_certain,
      ${shown.spent_at} is not null as is_spent,
      (select encode(${next.hash}, 'hex') from refresh_tokens next
        where ${next.session_id} = ${session.id}
          and ${next.hash} in (select decode(hash, 'hex') from unnest(${p.next_hashes}) hash)
          and ${next.spent_at} is null and ${next.expires_at} > now() and ${session.expires_at} > now()
          and ${shown.spent_at} between now() - ${reuseGrace} and now() + ${reuseGrace}) as next_hash
    from refresh_tokens shown join sessions session on ${session.id} = ${shown.session_id}
    where ${shown.hash} = ${p.hash}`,
)

/**
 * Locks the session of a refresh token, and reads both under the lock; null when there is no such token. `nextHashes` are those of its
 * successor under each key.
 */
export const lockRefresh = async (
  { db }: TransactionContext,
  hash: Buffer,
  nextHashes: readonly Buffer[],
): Promise<RefreshFacts | null> => {
  const next_hashes = nextHashes.map((one) => one.toString('hex'))
  const { facts } = await pipeline(db, {
    lock: () => lock(db, { hash }),
    facts: () => selectFacts(db, { hash, next_hashes }),
  })
  const [row] = facts
  if (row === undefined) return null
  return {
    hash,
    sessionId: row.session_id,
    userId: row.user_id,
    isLive: row.is_live,
    isExpiredForCertain: row.is_expired_for_certain,
    isSpent: row.is_spent,
    repeatable: row.next_hash === null ? null : Buffer.from(row.next_hash, 'hex'),
  }
}

const markSpent = builtStatement('refresh_tokens.spend', { hash: 'bytes' }, (db, p) =>
  db
    .update(refreshTokens)
    .set({ spent_at: sql`now()` })
    .where(eq(refreshTokens.hash, p.hash)),
)

const continueSession = builtStatement(
  'sessions.continue',
  { id: 'uuid', user_agent: 'text?', address: 'text' },
  (db, p) =>
    db
      .update(sessions)
      .set({ last_used_at: sql`now()`, user_agent: p.user_agent, address: p.address })
      .where(eq(sessions.id, p.id)),
)

/** Spends a refresh token, and continues its session with the successor. */
export const rotate = async (
  tx: TransactionContext,
  { hash, sessionId }: RefreshFacts,
  nextHash: Buffer,
): Promise<void> => {
  const { userAgent: user_agent, address } = tx.client
  await pipeline(tx.db, {
    previous: () => markSpent(tx.db, { hash }),
    session: () => continueSession(tx.db, { id: sessionId, user_agent, address }),
    next: () => insertRefreshToken(tx, { hash: nextHash, sessionId }),
  })
}

const removeReused = rowDeletion('sessions.delete_reused', sessions)

/** Ends the session of a refresh token. */
export const removeRefreshedSession = async (
  { db }: TransactionContext,
  { sessionId }: RefreshFacts,
): Promise<void> => {
  await removeReused(db, { id: sessionId })
}

/** Deletes spent tokens that have expired: reusing one no longer indicates a theft. */
export const removeSpentRefreshTokens = deletionInBatches('refresh_tokens.delete_spent', {
  parameters: {},
  table: refreshTokens,
  condition: () => sql`expires_at <= ${retentionTime} and spent_at is not null`,
})
