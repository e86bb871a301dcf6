import { builtStatement } from '../statements/built-statement.ts'
import type { TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { voidOneTimeTokens } from './one-time-tokens.ts'
import { and, eq, isNull, sql } from '../schema/drizzle.ts'
import {
  apiTokens,
  exports,
  feeds,
  identities,
  oneTimeTokens,
  secondFactors,
  sessions,
  users,
  webhooks,
} from '../schema/tables.ts'
import { touched } from '../shared/touch.ts'

/**
 * What ends the access to an account. The user is locked before, so that the sessions include that of a sign-in with the old password
 * which was committed just before.
 */

const deleteSessions = builtStatement(
  'end_access.delete_sessions',
  { user_id: 'uuid', kept: 'uuid?' },
  (db, p) =>
    db
      .delete(sessions)
      .where(and(eq(sessions.user_id, p.user_id), sql`${sessions.id} is distinct from ${p.kept}`)),
)

/** Ends the sessions of a user, except `keptSession`. */
export const endSessions = async (
  { db }: TransactionContext,
  userId: string,
  keptSession: string | null = null,
): Promise<void> => {
  await deleteSessions(db, { user_id: userId, kept: keptSession })
}

/**
 * Ends the sessions of a user, except `keptSession`, and voids everything else that gives access to the account with what was known
 * until now: pending sign-ins and password resets, but not API tokens. First the challenges, since using one starts a session.
 */
export const endAccess = async (
  tx: TransactionContext,
  userId: string,
  { keptSession = null }: { readonly keptSession?: string | null } = {},
): Promise<void> => {
  await pipeline(tx.db, {
    oneTimeTokens: () => voidOneTimeTokens(tx, userId),
    sessions: () => endSessions(tx, userId, keptSession),
  })
}

const deleteApiTokens = builtStatement('end_access.delete_api_tokens', { user_id: 'uuid' }, (db, p) =>
  db.delete(apiTokens).where(eq(apiTokens.user_id, p.user_id)),
)

/** Revokes the API tokens of a user. */
export const revokeApiTokens = async ({ db }: TransactionContext, userId: string): Promise<void> => {
  await deleteApiTokens(db, { user_id: userId })
}

const markFeedsRevoked = builtStatement('end_access.revoke_feeds', { user_id: 'uuid' }, (db, p) =>
  db
    .update(feeds)
    .set({ revoked_at: sql`now()` })
    .where(and(eq(feeds.owner_id, p.user_id), isNull(feeds.revoked_at))),
)

/** Revokes the calendar feeds of a user. */
export const revokeFeeds = async ({ db }: TransactionContext, userId: string): Promise<void> => {
  await markFeedsRevoked(db, { user_id: userId })
}

const deleteSecondFactor = builtStatement('end_access.delete_second_factor', { user_id: 'uuid' }, (db, p) =>
  db
    .delete(secondFactors)
    .where(eq(secondFactors.user_id, p.user_id))
    .returning({ user_id: secondFactors.user_id }),
)

/** Deletes the second factor of a user with its recovery codes. False when there is none. */
export const discardSecondFactor = async ({ db }: TransactionContext, userId: string): Promise<boolean> => {
  const rows = await deleteSecondFactor(db, { user_id: userId })
  return rows.length > 0
}

const deleteOneTimeTokens = builtStatement(
  'end_access.delete_one_time_tokens',
  { user_id: 'uuid' },
  (db, p) => db.delete(oneTimeTokens).where(eq(oneTimeTokens.user_id, p.user_id)),
)

const deleteIdentities = builtStatement('end_access.delete_identities', { user_id: 'uuid' }, (db, p) =>
  db.delete(identities).where(eq(identities.user_id, p.user_id)),
)

const discardPassword = builtStatement('end_access.discard_password', { user_id: 'uuid' }, (db, p) =>
  db.update(users).set({ password_hash: null }).where(eq(users.id, p.user_id)),
)

const disableWebhooks = builtStatement('end_access.disable_webhooks', { user_id: 'uuid' }, (db, p) =>
  db
    .update(webhooks)
    .set({ is_enabled: false, ...touched(webhooks) })
    .where(and(eq(webhooks.owner_id, p.user_id), webhooks.is_enabled)),
)

const deleteExports = builtStatement('end_access.delete_exports', { user_id: 'uuid' }, (db, p) =>
  db.delete(exports).where(eq(exports.requested_by, p.user_id)),
)

/**
 * Ends every other access to an account that an identity takes over by its address. Anybody can have registered it with the address of
 * somebody else, and kept a way in: a password, a session, an API token, a link that restores another address, an identity, a
 * calendar feed, or a webhook. Their exports go with it. A second factor stays: it lets nobody in by itself.
 */
export const endEarlierAccess = async (tx: TransactionContext, userId: string): Promise<void> => {
  await pipeline(tx.db, {
    oneTimeTokens: () => deleteOneTimeTokens(tx.db, { user_id: userId }),
    password: () => discardPassword(tx.db, { user_id: userId }),
    sessions: () => endSessions(tx, userId),
    apiTokens: () => revokeApiTokens(tx, userId),
    feeds: () => revokeFeeds(tx, userId),
    identities: () => deleteIdentities(tx.db, { user_id: userId }),
    exports: () => deleteExports(tx.db, { user_id: userId }),
    webhooks: () => disableWebhooks(tx.db, { user_id: userId }),
  })
}

/** Deletes every credential of a user who is deleted. */
export const removeCredentials = async (tx: TransactionContext, userId: string): Promise<void> => {
  await pipeline(tx.db, {
    oneTimeTokens: () => deleteOneTimeTokens(tx.db, { user_id: userId }),
    sessions: () => endSessions(tx, userId),
    apiTokens: () => revokeApiTokens(tx, userId),
    secondFactor: () => discardSecondFactor(tx, userId),
    identities: () => deleteIdentities(tx.db, { user_id: userId }),
  })
}
