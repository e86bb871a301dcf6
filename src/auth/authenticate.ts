import type { Principal } from '../domain/permissions.ts'
import { problems } from '../problems.ts'
import type { AccessTokens } from './access-tokens.ts'
import type { Sessions } from './sessions.ts'

/**
 * Finds out who makes a request, by its Authorization header.
 *
 * @throws Problem 401
 */
export type Authenticate = (authorization: string | undefined) => Promise<Principal>

/** RFC 6750 §2.1: the scheme in any case, and one token. */
const bearer = /^bearer +([\w-]+\.[\w-]+\.[\w-]+) *$/i

/** Authenticates by access tokens whose sessions are live. */
export const createAuthenticate =
  (accessTokens: AccessTokens, sessions: Sessions): Authenticate =>
  async (authorization) => {
    // With another scheme there is no token either, and so no error to tell of (RFC 6750 §3.1).
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw problems.noToken()
    const token = bearer.exec(authorization)?.[1]
    const claims = token === undefined ? null : accessTokens.verify(token)
    const role = claims && (await sessions.roleOf(claims.sessionId, claims.userId))
    if (claims === null || role === null) throw problems.invalidToken()
    return { ...claims, role }
  }
