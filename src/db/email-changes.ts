import type { Client } from '../domain/audit.ts'
import { audit, auditColumn, auditColumns, auditEvent, auditParameters, auditValues } from './audit.ts'
import type { Database } from './engine/client.ts'
import { sql } from './engine/drizzle.ts'
import { resetLifetime } from './passwords.ts'
import { onlyRow, statement } from './engine/statement.ts'

const live = statement(
  { token_hash: 'bytes' },
  { user_id: 'text' },
  (p) => sql`
    select user_id::text from one_time_tokens
    where hash = ${p.token_hash} and purpose = 'undo_email' and expires_at > now()`,
)

/** Whether a token can undo a change of address now. */
export const selectHasUndoToken = async (db: Database, tokenHash: Buffer): Promise<boolean> =>
  onlyRow(await live(db, { token_hash: tokenHash })) !== null

// Whoever changed the address may hold the tokens of later changes, so these go as well. Earlier ones were sent to addresses
// that the user had before.
const undo = statement(
  { token_hash: 'bytes', unmatchable_hash: 'text', ...auditParameters },
  { user_id: 'text', email: 'text', ...auditColumns },
  (p) => sql`
    with token as (
      select user_id, email, created_at from one_time_tokens
      where hash = ${p.token_hash} and purpose = 'undo_email' and expires_at > now() for update
    ), person as (
      update users set email = token.email, password_hash = ${p.unmatchable_hash} from token
      where users.id = token.user_id returning users.id, users.email, token.created_at
    ), used as (
      delete from one_time_tokens undoing using person
      where undoing.user_id = person.id and purpose = 'undo_email' and undoing.created_at >= person.created_at
    ), revoked as (
      delete from api_tokens using person where user_id = person.id
    ), audit as (${audit(
      p,
      sql`${auditEvent(p, 'user.email_change_undone', { user: sql`id`, actor: sql`id` })} from person`,
    )})
    select id::text as user_id, email, end_access(id, null), ${auditColumn} from person`,
)

/**
 * Uses a token up to restore an address. The user's sessions end, the API tokens are revoked, and no password is right any
 * more: whoever changed the address had all it takes to sign in. Returns the user and the restored address; null when the
 * token is not live.
 */
export const undoEmailChange = async (
  db: Database,
  client: Client,
  tokenHash: Buffer,
  unmatchableHash: string,
): Promise<{ readonly userId: string; readonly email: string } | null> => {
  const values = { token_hash: tokenHash, unmatchable_hash: unmatchableHash, ...auditValues(client, null) }
  const row = onlyRow(await undo(db, values))
  return row && { userId: row.user_id, email: row.email }
}

const insertReset = statement(
  { user_id: 'uuid', token_hash: 'bytes' },
  { user_id: 'text' },
  (p) => sql`
    insert into one_time_tokens (hash, purpose, user_id, expires_at)
    select ${p.token_hash}, 'reset_password', id, now() + ${resetLifetime} from users where id = ${p.user_id}
    returning user_id::text`,
)

/** Stores a token to set a new password for a user whose address was restored. False when there is no such user any more. */
export const insertResetTokenOf = async (db: Database, userId: string, tokenHash: Buffer): Promise<boolean> =>
  onlyRow(await insertReset(db, { user_id: userId, token_hash: tokenHash })) !== null
