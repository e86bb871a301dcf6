import { hash } from 'node:crypto'
import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { retentionTime } from '../shared/retention.ts'
import { expectRow } from '../statements/row-statements.ts'
import { and, eq, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { identities, logoutTokens, oneTimeTokens, providerSessions, sessions } from '../schema/tables.ts'

/**
 * What a logout token of a provider ends: a session of the provider, or all sessions of a subject. One of the two is not null. With
 * both, sessions of the subject end too whose session of the provider is unknown.
 */
export interface EndedLogin {
  readonly issuer: string
  readonly subject: string | null
  readonly sid: string | null
}

/** A logout token that was verified. */
interface LogoutToken extends EndedLogin {
  readonly id: string
  /** Seconds since the epoch. */
  readonly expiresAt: number
}

const hashOf = (issuer: string, id: string): Buffer => hash('sha256', JSON.stringify([issuer, id]), 'buffer')

/** What a login is found by before it has an account. */
export const loginHashes = ({ issuer, subject, sid }: EndedLogin) => ({
  subject_hash: subject === null ? null : hashOf(issuer, subject),
  sid_hash: sid === null ? null : hashOf(issuer, sid),
})

// An update without effect, so that the row is returned.
const insert = builtStatement(
  'logout_tokens.insert',
  { issuer: 'text', token_id: 'text', expires_at: 'int8', subject_hash: 'bytes?', sid_hash: 'bytes?' },
  (db, p) =>
    db
      .insert(logoutTokens)
      .values({ ...p, expires_at: sql`to_timestamp(${p.expires_at})`, is_used: false })
      .onConflictDoUpdate({
        target: [logoutTokens.issuer, logoutTokens.token_id],
        set: { token_id: p.token_id },
      })
      .returning({ isUsed: logoutTokens.is_used }),
)

/**
 * Records that a logout token was received: from now on, no code of a sign-in that has begun before is accepted. Returns whether the token
 * was used before.
 */
export const insertLogoutToken = async (
  { db }: StatementContext,
  { issuer, id, expiresAt, ...login }: LogoutToken,
): Promise<boolean> => {
  const hashes = loginHashes({ issuer, ...login })
  return expectRow(await insert(db, { issuer, token_id: id, expires_at: expiresAt, ...hashes })).isUsed
}

const use = builtStatement('logout_tokens.use', { issuer: 'text', token_id: 'text' }, (db, p) =>
  db
    .update(logoutTokens)
    .set({ is_used: true })
    .where(and(eq(logoutTokens.issuer, p.issuer), eq(logoutTokens.token_id, p.token_id))),
)

/** Records that a logout token was used. */
export const useLogoutToken = async (
  { db }: StatementContext,
  { issuer, id }: Pick<LogoutToken, 'issuer' | 'id'>,
): Promise<void> => {
  await use(db, { issuer, token_id: id })
}

const login = { issuer: 'text', subject: 'text?', sid: 'text?' } as const

/** Whether a session of the provider, perhaps unknown, is one that ends. */
const isOfLogin = (sid: SQLWrapper, p: Placeholders<typeof login>): SQL =>
  sql`(${p.sid} is null or ${sid} = ${p.sid} or (${sid} is null and ${p.subject} is not null))`

const selectUsers = builtStatement('identities.select_users_of_login', login, (db, p) =>
  db
    .selectDistinct({ userId: identities.user_id })
    .from(identities)
    .leftJoin(providerSessions, eq(providerSessions.identity_id, identities.id))
    .where(
      and(
        eq(identities.issuer, p.issuer),
        sql`(${p.subject} is null or ${identities.subject} = ${p.subject})`,
        sql`(${isOfLogin(providerSessions.sid, p)} or exists (
          select from one_time_tokens
          where ${oneTimeTokens.identity_id} = ${identities.id} and ${isOfLogin(oneTimeTokens.sid, p)}))`,
      ),
    ),
)

/** The ids of the users with sessions, or pending sign-ins, that a logout ends. */
export const usersOfLogin = async ({ db }: StatementContext, ended: EndedLogin): Promise<readonly string[]> =>
  (await selectUsers(db, { ...ended })).map(({ userId }) => userId)

const loginParameters = { user_id: 'uuid', ...login } as const

const deleteSessions = builtStatement('provider_sessions.end_login', loginParameters, (db, p) =>
  db
    .delete(sessions)
    .where(
      sql`${sessions.id} in (
        select ${providerSessions.session_id} from provider_sessions
          join identities on ${identities.id} = ${providerSessions.identity_id}
        where ${identities.user_id} = ${p.user_id} and ${identities.issuer} = ${p.issuer}
          and (${p.subject} is null or ${identities.subject} = ${p.subject})
          and ${isOfLogin(providerSessions.sid, p)})`,
    )
    .returning({ id: sessions.id }),
)

const deleteChallenges = builtStatement('one_time_tokens.end_login', loginParameters, (db, p) =>
  db.delete(oneTimeTokens).where(
    sql`${oneTimeTokens.identity_id} in (
        select ${identities.id} from identities
        where ${identities.user_id} = ${p.user_id} and ${identities.issuer} = ${p.issuer}
          and (${p.subject} is null or ${identities.subject} = ${p.subject}))
        and ${isOfLogin(oneTimeTokens.sid, p)}`,
  ),
)

/** Ends the sessions of a locked user, and their pending sign-ins. Returns the ids of the sessions. */
export const endLogin = async (
  { db }: TransactionContext,
  userId: string,
  ended: EndedLogin,
): Promise<readonly string[]> => {
  const values = { user_id: userId, ...ended }
  const { rows } = await pipeline(db, {
    rows: () => deleteSessions(db, values),
    challenges: () => deleteChallenges(db, values),
  })
  return rows.map(({ id }) => id)
}

/** Deletes tokens that have expired, which nobody accepts any more. */
export const removeExpiredLogoutTokens = deletionInBatches('logout_tokens.delete_expired', {
  parameters: {},
  table: logoutTokens,
  // Longer than the clocks of providers may differ.
  condition: () => sql`expires_at <= ${retentionTime} - interval '1 hour'`,
})
