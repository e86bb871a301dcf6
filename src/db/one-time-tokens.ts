import { deletionInBatches } from './engine/batches.ts'
import type { OpContext } from './engine/context.ts'
import { query } from './engine/statement.ts'
import { retentionTime } from './engine/retention.ts'
import { columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** The purpose of a one-time token: completing a sign-in, resetting a password, or undoing a change of email address. */
export type Purpose = 'sign_in' | 'reset_password' | 'undo_email'

interface NewToken {
  readonly purpose: Purpose
  readonly hash: SQL
  /** The id of its user. */
  readonly user: SQL
  /** An interval. */
  readonly lifetime: SQL
  /** The address that `undo_email` restores. */
  readonly email?: SQL
}

/** The columns of a new token and their values. */
export const newOneTimeToken = ({ purpose, hash, user, lifetime, email = sql`null::text` }: NewToken) =>
  insertion<'one_time_tokens'>({
    hash,
    purpose: sql.raw(`'${purpose}'`),
    user_id: user,
    email,
    expires_at: sql`now() + ${lifetime}`,
  })

/** Whether the row `token` is the unexpired token with this hash. */
export const isOneTimeToken = (token: SQL, purpose: Purpose | SQL, hash: SQL): SQL => {
  const columns = columnsOf<'one_time_tokens'>(token)
  const expected = typeof purpose === 'string' ? sql.raw(`'${purpose}'`) : purpose
  return sql`(${columns.hash} = ${hash} and ${columns.purpose} = ${expected} and ${columns.expires_at} > now())`
}

const token = sql.raw('token')

const select = query(
  'one_time_tokens.select',
  { purpose: 'text', hash: 'bytes' },
  { user_id: 'text' },
  (p) => sql`
    select ${columnsOf<'one_time_tokens'>(token).user_id}::text from one_time_tokens token
    where ${isOneTimeToken(token, p.purpose, p.hash)}`,
)

/** Whether a token can be used now. */
export const hasOneTimeToken = async (
  ctx: OpContext,
  wanted: { readonly purpose: Purpose; readonly hash: Buffer },
): Promise<boolean> => (await select(ctx, wanted)).length > 0

/** Deletes expired tokens. Tokens for passwords stay for an hour, since they count towards the hourly limit of emails. */
export const removeExpiredOneTimeTokens = deletionInBatches('one_time_tokens.delete_expired', {
  parameters: {},
  table: 'one_time_tokens',
  condition: () => sql`expires_at <= ${retentionTime} - interval '1 hour'`,
})
