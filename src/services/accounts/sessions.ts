import type { AccessTokens } from '../../auth/access-tokens.ts'
import type { Credentials } from '../../auth/credentials.ts'
import { hashRefreshToken, type NewToken, nextRefreshToken } from '../../auth/opaque-tokens.ts'
import { lockOwnAccount } from '../../db/accounts/lock.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { endSessions } from '../../db/accounts/end-access.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { type Last, last } from '../../db/engine/transaction.ts'
import {
  lockRefresh,
  removeRefreshedSession,
  rotate,
  type StartedSession,
  viewStarted,
} from '../../db/accounts/refresh-tokens.ts'
import { lockSession, removeSession, selectSessions, type SessionFacts } from '../../db/accounts/sessions.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, SessionPrincipal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, thenForget, transaction } from '../shared/context.ts'
import { expectMay, expectSeen, expectSignedIn } from '../shared/expectations.ts'
import { type IssuedTokens, issueTokens } from './issue-tokens.ts'

/** Refreshes and ends sessions. */
export interface Sessions {
  /** @throws Problem 401 for an invalid token. Reusing an earlier token ends its session. */
  refresh(ctx: OpContext, refreshToken: string): Promise<IssuedTokens>
  /** @throws Problem 404 when the caller has no such session */
  end(ctx: OpContext<SessionPrincipal>, sessionId: string): Promise<void>
  /** Ends the caller's session, or all of their sessions. */
  signOut(ctx: OpContext<SessionPrincipal>, input: { readonly everywhere: boolean }): Promise<void>
}

interface Deps {
  readonly accessTokens: AccessTokens
  readonly credentials: Credentials
  /** Derive each refresh token from its predecessor. */
  readonly refreshKeys: KeyRing
}

export const createSessions = ({ accessTokens, credentials, refreshKeys }: Deps): Sessions => ({
  async refresh(ctx, shown) {
    const shownHash = hashRefreshToken(shown)
    if (shownHash === null) throw problems.invalidRefreshToken()
    const successors = refreshKeys.verification.map((key) => nextRefreshToken(key, shown))
    const refreshed = await transaction<Principal | null, Refreshed>(ctx, (tx) =>
      refresh(tx, shownHash, successors),
    )
    if (refreshed === null) throw problems.invalidRefreshToken()
    if ('endedSessionId' in refreshed) {
      await credentials.forgetSession(refreshed.endedSessionId)
      throw problems.invalidRefreshToken()
    }
    // The access token is signed with the secret that derived the refresh token, so that a repeat returns the same pair even on
    // an instance with another active secret.
    const keyIndex = successors.findIndex(({ hash }) => hash.equals(refreshed.tokenHash))
    const successor = successors[keyIndex]
    if (successor === undefined) throw new Error('The current refresh token is not one of the successors')
    return issueTokens(accessTokens, refreshed, { refreshToken: successor.token, keyIndex })
  },

  async end(ctx, sessionId) {
    await thenForget(
      transaction(ctx, async (tx) => {
        const session = expectSeen('session.see', await lockSession(tx, sessionId))
        await endSession(tx, expectMay('session.end_other', session))
      }),
      () => credentials.forgetSession(sessionId),
    )
  },

  async signOut(ctx, { everywhere }) {
    const { userId, credential } = ctx.principal
    if (everywhere) {
      await thenForget(
        transaction(ctx, async (tx) => {
          expectSignedIn(await lockOwnAccount(tx))
          await pipeline(tx.db, {
            sessions: () => endSessions(tx, userId),
            audit: () => recordAudit(tx, 'session.all_ended', { userId }),
          })
        }),
        () => credentials.forgetUser(userId),
      )
    } else {
      await thenForget(
        transaction(ctx, async (tx) => {
          const session = await lockSession(tx, credential.sessionId)
          if (session !== null) await endSession(tx, expectMay('session.end_other', session))
        }),
        () => credentials.forgetSession(credential.sessionId),
      )
    }
  },
})

/** A page of the caller's sessions. */
export const listSessions = (ctx: OpContext<SessionPrincipal>, page: PageRequest): Promise<Page> =>
  selectSessions(ctx, page)

/** A refreshed session; the id of one that a reused token has ended; null for an unknown token. */
type Refreshed = StartedSession | { readonly endedSessionId: string } | null

/**
 * Spends a refresh token, and continues its session with the successor.
 *
 * A token that was spent a moment ago and whose successor is unused returns the same successor again, because two tabs may refresh at
 * once, and a response may be lost. Any other use of a spent token ends the session: somebody has a copy of it.
 */
const refresh = async (
  tx: TransactionContext,
  shownHash: Buffer,
  successors: readonly NewToken[],
): Promise<Refreshed | Last<Refreshed>> => {
  const nextHashes = successors.map(({ hash }) => hash)
  const [nextHash] = nextHashes
  if (nextHash === undefined) throw new Error('There is no key for the next refresh token')
  const token = await lockRefresh(tx, shownHash, nextHashes)
  if (token === null) return null
  if (token.isLive && !token.isSpent) {
    await rotate(tx, token, nextHash)
    return last(viewStarted(tx, nextHash))
  }
  if (token.repeatable !== null) return last(viewStarted(tx, token.repeatable))
  if (!token.isSpent && !token.isExpiredForCertain) return null
  const { sessionId, userId } = token
  await pipeline(tx.db, {
    session: () => removeRefreshedSession(tx, token),
    // A token that nobody could have used is no sign of a theft.
    audit: () => token.isLive && recordAudit(tx, 'session.token_reused', { userId, sessionId }),
  })
  return { endedSessionId: sessionId }
}

const endSession = async (
  tx: TransactionContext<SessionPrincipal>,
  session: Authorized<'session.end_other', SessionFacts>,
): Promise<void> => {
  const { id: sessionId, userId } = session
  await pipeline(tx.db, {
    session: () => removeSession(tx, session),
    audit: () => recordAudit(tx, 'session.ended', { userId, sessionId }),
  })
}
