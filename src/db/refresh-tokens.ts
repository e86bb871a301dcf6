import { audit, auditColumn, auditEvent } from './audit.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { OpContext } from './engine/context.ts'
import { query } from './engine/statement.ts'
import { retentionTime } from './engine/retention.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'
import {
  insertRefreshToken,
  readStarted,
  selectStarted,
  startedColumns,
  type StartedSession,
} from './sessions.ts'

/** Time for which a spent refresh token still returns its successor. A longer time ahead is from before the clock was set back. */
const reuseGrace = sql.raw(`interval '30 seconds'`)

const rotate = query(
  'refresh_tokens.rotate',
  { shown_hash: 'bytes', next_hash: 'bytes' },
  startedColumns,
  (p) => sql`
    with spent as (
      update refresh_tokens token set ${assignments<'refresh_tokens'>({ spent_at: sql`now()` })} from sessions
      where token.hash = ${p.shown_hash} and token.spent_at is null and token.expires_at > now()
        and sessions.id = token.session_id and sessions.expires_at > now()
      returning sessions.id
    ), session as (
      update sessions set ${assignments<'sessions'>({
        last_used_at: sql`now()`,
        user_agent: p.audit_user_agent,
        address: p.audit_address,
      })}
      from spent where sessions.id = spent.id returning sessions.*
    ), token as (
      ${insertRefreshToken(p.next_hash)}
    ), person as (
      select users.* from users join session on users.id = session.user_id
    )
    ${selectStarted()}`,
)

const repeat = query(
  'refresh_tokens.repeat',
  { shown_hash: 'bytes', next_hashes: 'text[]' },
  { ...startedColumns, next_hash: 'bytes' },
  (p) => sql`
    with token as (
      select next.* from refresh_tokens shown join refresh_tokens next using (session_id)
      where shown.hash = ${p.shown_hash} and shown.spent_at between now() - ${reuseGrace} and now() + ${reuseGrace}
        and next.hash in (select decode(hash, 'hex') from unnest(${p.next_hashes}) hash)
        and next.spent_at is null and next.expires_at > now()
    ), session as (
      select sessions.* from sessions join token on sessions.id = token.session_id where sessions.expires_at > now()
    ), person as (
      select users.* from users join session on users.id = session.user_id
    )
    ${selectStarted(sql`${columnsOf<'refresh_tokens'>(sql`token`).hash} as next_hash`)}`,
)

/** A refreshed session, and the hash of its refresh token. */
export interface RefreshedSession extends StartedSession {
  readonly tokenHash: Buffer
}

/** The hash of the presented refresh token, and the hashes of its successor under each key, the active key first. */
interface Rotation {
  readonly shownHash: Buffer
  readonly nextHashes: readonly Buffer[]
}

/**
 * Spends a refresh token and stores its successor. Null when the token is invalid.
 *
 * A token that was spent within `reuseGrace` and whose successor is unused returns the same successor again, because two tabs may
 * refresh at once, and a response may be lost.
 */
export const rotateRefreshToken = async (
  ctx: OpContext,
  { shownHash, nextHashes }: Rotation,
): Promise<RefreshedSession | null> => {
  const [nextHash] = nextHashes
  if (nextHash === undefined) throw new Error('There is no key for the next refresh token')
  const [rotated] = await rotate(ctx, { shown_hash: shownHash, next_hash: nextHash })
  const started = readStarted(rotated)
  if (started !== null) return { ...started, tokenHash: nextHash }
  // A second statement, whose snapshot includes what a concurrent request committed while the first statement waited for it.
  const hashes = nextHashes.map((hash) => hash.toString('hex'))
  const [row] = await repeat(ctx, { shown_hash: shownHash, next_hashes: hashes })
  const repeated = readStarted(row)
  return row && repeated ? { ...repeated, tokenHash: row.next_hash } : null
}

const endReused = query(
  'sessions.delete_reused',
  { shown_hash: 'bytes' },
  { id: 'text' },
  (p) => sql`
    with ended as (
      delete from sessions using refresh_tokens shown
      where shown.hash = ${p.shown_hash} and sessions.id = shown.session_id
        and (shown.spent_at is not null or shown.expires_at <= ${retentionTime})
      returning sessions.id, sessions.user_id, shown.expires_at > now() and sessions.expires_at > now() as reused
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'session.token_reused', { user: sql`user_id`, session: sql`id` })} from ended where reused`,
    )})
    select ${columnsOf<'sessions'>(sql`ended`).id}::text, ${auditColumn} from ended`,
)

/** Ends the session of a refresh token that is spent or expired. Returns the session's id, null when there is none. */
export const endReusedSession = async (ctx: OpContext, shownHash: Buffer): Promise<string | null> => {
  const [row] = await endReused(ctx, { shown_hash: shownHash })
  return row?.id ?? null
}

/** Deletes spent tokens that have expired: reusing one no longer indicates a theft. */
export const removeSpentRefreshTokens = deletionInBatches('refresh_tokens.delete_spent', {
  parameters: {},
  table: 'refresh_tokens',
  condition: () => sql`expires_at <= ${retentionTime} and spent_at is not null`,
})
