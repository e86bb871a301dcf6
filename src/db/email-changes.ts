import { audit, auditColumn, auditEvent } from './audit.ts'
import type { OpContext } from './engine/context.ts'
import { query } from './engine/statement.ts'
import { isOneTimeToken } from './one-time-tokens.ts'
import { endAccess } from './passwords.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'

// Whoever changed the address may hold the tokens of later changes, so these are deleted as well. Earlier ones were sent to
// addresses that the user had before.
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
 * Uses up a token to restore an address. The user's sessions end, their API tokens are revoked, and no password is valid any
 * more: whoever changed the address had all it takes to sign in. Returns the user and the restored address; null when the
 * token is not live.
 */
export const undoEmailChange = async (
  ctx: OpContext,
  { tokenHash, unmatchableHash }: { readonly tokenHash: Buffer; readonly unmatchableHash: string },
): Promise<{ readonly userId: string; readonly email: string } | null> => {
  const [row] = await undo(ctx, { token_hash: tokenHash, unmatchable_hash: unmatchableHash })
  return row === undefined ? null : { userId: row.id, email: row.email }
}
