import type { Principal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import type { AccessTokens } from '../auth/access-tokens.ts'
import { hashApiToken } from '../auth/api-tokens.ts'
import type { Credentials } from '../auth/credentials.ts'

/**
 * Authenticates a request by its Authorization header.
 *
 * @throws Problem 401
 */
export type Authenticate = (authorization: string | undefined) => Promise<Principal>

/** RFC 6750 §2.1: the scheme, in any case, and one token. */
const bearer = /^bearer +([\w.-]+) *$/i

/** Accepts access tokens of live sessions, and API tokens. */
export const createAuthenticate = (accessTokens: AccessTokens, credentials: Credentials): Authenticate => {
  const principalOf = (token: string): Promise<Principal | null> | null => {
    const hash = hashApiToken(token)
    if (hash !== null) return credentials.ofApiToken(hash)
    const claims = accessTokens.verify(token)
    return claims && credentials.ofSession(claims.sessionId, claims.userId)
  }

  return async (authorization) => {
    // Another scheme counts as a missing token, so the challenge has no error code (RFC 6750 §3.1).
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw problems.noToken()
    const token = bearer.exec(authorization)?.[1]
    const principal = token === undefined ? null : await principalOf(token)
    if (principal === null) throw problems.invalidToken()
    return principal
  }
}
