import type { AccessTokens } from '../auth/access-tokens.ts'
import type { Credentials } from '../auth/credentials.ts'
import { hashRefreshToken, nextRefreshToken } from '../auth/opaque-tokens.ts'
import type { OpContext } from '../db/engine/context.ts'
import { endReusedSession, rotateRefreshToken } from '../db/refresh-tokens.ts'
import { deleteSession, deleteSessions } from '../db/sessions.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { expectDone, problems } from '../problems/problems.ts'
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
    const nextHashes = successors.map(({ hash }) => hash)
    const started = await rotateRefreshToken(ctx, { shownHash, nextHashes })
    if (started === null) {
      const endedSessionId = await endReusedSession(ctx, shownHash)
      if (endedSessionId !== null) await credentials.forgetSession(endedSessionId)
      throw problems.invalidRefreshToken()
    }
    // The access token is signed with the secret that derived the refresh token, so that a repeat returns the same pair even on
    // an instance with another active secret.
    const keyIndex = nextHashes.findIndex((hash) => hash.equals(started.tokenHash))
    const successor = successors[keyIndex]
    if (successor === undefined) throw new Error('The current refresh token is not one of the successors')
    return issueTokens(accessTokens, started, { refreshToken: successor.token, keyIndex })
  },

  async end(ctx, sessionId) {
    expectDone(await deleteSession(ctx, sessionId))
    await credentials.forgetSession(sessionId)
  },

  async signOut(ctx, { everywhere }) {
    const { userId, credential } = ctx.principal
    if (everywhere) {
      await deleteSessions(ctx)
      await credentials.forgetUser(userId)
    } else {
      await deleteSession(ctx, credential.sessionId)
      await credentials.forgetSession(credential.sessionId)
    }
  },
})
