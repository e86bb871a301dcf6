import { type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'

/** Time for which a session counts as recently authenticated after proving a password or a second factor. */
const recent = sql.raw(`interval '15 minutes'`)

/** Whether a session with this time of its authentication counts as recently authenticated. */
export const isRecent = (authenticatedAt: SQLWrapper): SQL =>
  sql`${authenticatedAt} between now() - ${recent} and now() + ${recent}`

/** Whether the API tokens, webhooks, feeds and exports of a user rest, because their last sign-in with an identity provider is too long ago. */
export const isSignInDue = ({ sign_in_due_at }: { readonly sign_in_due_at: SQLWrapper }): SQL =>
  sql`coalesce(${sign_in_due_at} <= now(), false)`
