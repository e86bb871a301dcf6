import { audit, auditColumn, auditEvent } from './audit.ts'
import type { OpContext } from './engine/context.ts'
import { query } from './engine/statement.ts'
import { isOneTimeToken } from './one-time-tokens.ts'
import { endAccess } from './passwords.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'

// The tokens of later changes are deleted too, since the person who changed the address may have them. Tokens of earlier changes
// stay: they were sent to previous addresses of the user.
const undo = query(
  'users.undo_email_change',
  { token_hash: 'bytes', unmatchable_hash: 'text' },
  { id: 'text', email: 'text' },
  (p) => {
    const { id, email } = columnsOf<'users'>(sql`person`)
    const token = columnsOf<'one_time_tokens'>(sql`token`)
    const restored = assignments<'users'>({ email: token.email, password_hash: p.unmatchable_hash })
    return sql`
      with token as (
        select * from one_time_tokens
        where ${isOneTimeToken(sql`one_time_tokens`, 'undo_email', p.token_hash)} for update
      ), person as (
        update users set ${restored} from token
        where users.id = token.user_id returning users.id, users.email, ${token.created_at}
      ), used as (
        delete from one_time_tokens undoing using person
        where undoing.user_id = person.id and purpose = 'undo_email' and undoing.created_at >= person.created_at
      ), revoked as (
        delete from api_tokens using person where user_id = person.id
      ), audit as (${audit(
        p,
        sql`${auditEvent(p, 'user.email_change_undone', { user: sql`id`, actor: sql`id` })} from person`,
      )})
      select ${id}::text, ${email}, ${endAccess(sql`id`)}, ${auditColumn} from person`
  },
)

/**
 * Uses a token to restore an address. Because the person who changed the address could sign in, this also ends the user's
 * sessions, revokes their API tokens and invalidates the password. Returns the user and the restored address; null for an invalid
 * token.
 */
export const undoEmailChange = async (
  ctx: OpContext,
  { tokenHash, unmatchableHash }: { readonly tokenHash: Buffer; readonly unmatchableHash: string },
): Promise<{ readonly userId: string; readonly email: string } | null> => {
  const [row] = await undo(ctx, { token_hash: tokenHash, unmatchable_hash: unmatchableHash })
  return row === undefined ? null : { userId: row.id, email: row.email }
}
