import { deletionInBatches } from './engine/batches.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { StatementContext, TransactionContext } from './engine/context.ts'
import { retentionTime } from './engine/retention.ts'
import { and, eq, sql } from './schema/drizzle.ts'
import { identities, logoutTokens, oneTimeTokens, providerSessions, sessions } from './schema/tables.ts'

/** What a logout token of a provider ends: a session of the provider, or all sessions of a subject. One of the two is not null. */
export interface EndedLogin {
  readonly issuer: string
  readonly subject: string | null
  readonly sid: string | null
}

const insert = builtStatement(
  'logout_tokens.insert',
  { issuer: 'text', token_id: 'text', expires_at: 'int8' },
  (db, p) =>
    db
      .insert(logoutTokens)
      .values({ issuer: p.issuer, token_id: p.token_id, expires_at: sql`to_timestamp(${p.expires_at})` })
      .onConflictDoNothing()
      .returning({ token_id: logoutTokens.token_id }),
)

/** Records that a logout token was used. False if it was used before. `expiresAt` is in seconds since the epoch. */
export const useLogoutToken = async (
  { db }: TransactionContext,
  { issuer, id, expiresAt }: { readonly issuer: string; readonly id: string; readonly expiresAt: number },
): Promise<boolean> => (await insert(db, { issuer, token_id: id, expires_at: expiresAt })).length > 0

const login = { issuer: 'text', subject: 'text?', sid: 'text?' } as const

const selectUsers = builtStatement('identities.select_users_of_login', login, (db, p) =>
  db
    .selectDistinct({ userId: identities.user_id })
    .from(identities)
    .leftJoin(providerSessions, eq(providerSessions.identity_id, identities.id))
    .where(
      and(
        eq(identities.issuer, p.issuer),
        sql`(${p.subject} is null or ${identities.subject} = ${p.subject})`,
        sql`(${p.sid} is null or ${providerSessions.sid} = ${p.sid} or exists (
          select from one_time_tokens where ${oneTimeTokens.identity_id} = ${identities.id} and ${oneTimeTokens.sid} = ${p.sid}))`,
      ),
    ),
)

/** The ids of the users with sessions, or pending sign-ins, that a logout ends. */
export const usersOfLogin = async ({ db }: StatementContext, ended: EndedLogin): Promise<readonly string[]> =>
  (await selectUsers(db, { ...ended })).map(({ userId }) => userId)

const ofUser = { user_id: 'uuid', ...login } as const

const deleteSessions = builtStatement('provider_sessions.end_login', ofUser, (db, p) =>
  db
    .delete(sessions)
    .where(
      sql`${sessions.id} in (
        select ${providerSessions.session_id} from provider_sessions
          join identities on ${identities.id} = ${providerSessions.identity_id}
        where ${identities.user_id} = ${p.user_id} and ${identities.issuer} = ${p.issuer}
          and (${p.subject} is null or ${identities.subject} = ${p.subject})
          and (${p.sid} is null or ${providerSessions.sid} = ${p.sid}))`,
    )
    .returning({ id: sessions.id }),
)

const deleteChallenges = builtStatement('one_time_tokens.end_login', ofUser, (db, p) =>
  db.delete(oneTimeTokens).where(
    sql`${oneTimeTokens.identity_id} in (
        select ${identities.id} from identities
        where ${identities.user_id} = ${p.user_id} and ${identities.issuer} = ${p.issuer}
          and (${p.subject} is null or ${identities.subject} = ${p.subject}))
        and (${p.sid} is null or ${oneTimeTokens.sid} = ${p.sid})`,
  ),
)

/** Ends the sessions of a locked user, and their pending sign-ins. Returns the ids of the sessions. */
export const endLogin = async (
  { db }: TransactionContext,
  userId: string,
  ended: EndedLogin,
): Promise<readonly string[]> => {
  const values = { user_id: userId, ...ended }
  const [rows] = await Promise.all([deleteSessions(db, values), deleteChallenges(db, values)])
  return rows.map(({ id }) => id)
}

/** Deletes tokens that have expired, which nobody accepts any more. */
export const removeExpiredLogoutTokens = deletionInBatches('logout_tokens.delete_expired', {
  parameters: {},
  table: logoutTokens,
  // Longer than the clocks of providers may differ.
  condition: () => sql`expires_at <= ${retentionTime} - interval '1 hour'`,
})
