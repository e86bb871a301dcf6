import type { BearerPrincipal, FeedPrincipal, LinkPrincipal } from '../domain/shared/permissions.ts'
import { problems } from '../problems/problems.ts'
import type { AccessTokens } from '../auth/access-tokens.ts'
import { hashApiToken } from '../auth/api-tokens.ts'
import { readLinkToken } from '../auth/file-links.ts'
import type { FeedLinks } from '../auth/feed-links.ts'
import type { Credentials } from '../auth/credentials.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'

/**
 * Authenticates a request by its Authorization header.
 *
 * @throws Problem 401
 */
export type Authenticate = (authorization: string | undefined) => Promise<BearerPrincipal>

/** RFC 6750 §2.1: the scheme, in any case, and one token. */
const bearer = /^bearer +([\w.-]+) *$/i

/** The expiry of the access token in an Authorization header, in milliseconds since the epoch. Infinity for API tokens. */
export type ExpiryOf = (authorization: string | undefined) => number

export const createExpiryOf =
  (accessTokens: AccessTokens): ExpiryOf =>
  (authorization = '') =>
    accessTokens.verify(bearer.exec(authorization)?.[1] ?? '')?.expiresAt ?? Number.POSITIVE_INFINITY

/** Accepts access tokens of live sessions, and API tokens. */
export const createAuthenticate = (accessTokens: AccessTokens, credentials: Credentials): Authenticate => {
  const principalOf = (token: string): Promise<BearerPrincipal | 'suspended' | null> | null => {
    const hash = hashApiToken(token)
    if (hash !== null) return credentials.apiTokenPrincipal(hash)
    const claims = accessTokens.verify(token)
    return claims && credentials.sessionPrincipal(claims.sessionId, claims.userId)
  }

  return async (authorization) => {
    // Another scheme counts as a missing token, so the challenge has no error code (RFC 6750 §3.1).
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw problems.noToken()
    const token = bearer.exec(authorization)?.[1]
    const principal = token === undefined ? null : await principalOf(token)
    if (principal === null) throw problems.invalidToken()
    if (principal === 'suspended') throw problems.signInRequired()
    return principal
  }
}

/**
 * Authenticates a request by the token of a link to a file. The link is valid only as long as the session or API token
 * that created it.
 *
 * @throws Problem 404, or 410 if it has expired
 */
export type AuthenticateLink = (resourceId: string, token: string) => Promise<LinkPrincipal>

/** Maximum lifetime of a link in milliseconds. The contract promises it. */
const maxLinkLifetime = 3_600_000

/** Forged and revoked links get the same problem as missing files. Only a genuine link reveals that it has expired. */
export const createAuthenticateLink =
  (keys: KeyRing, credentials: Credentials, now: () => number): AuthenticateLink =>
  async (resourceId, token) => {
    const link = readLinkToken(keys, resourceId, token)
    // A link that expires so late is from before the clock was set back, and would be valid for as much longer.
    if (link === null || link.expiresAt - now() > 2 * maxLinkLifetime) throw problems.notFound()
    if (link.expiresAt <= now()) throw problems.linkExpired(new Date(link.expiresAt).toISOString())
    const { userId, createdWith, disposition } = link
    const creator = await (createdWith.kind === 'session'
      ? credentials.sessionPrincipal(createdWith.id, userId)
      : credentials.apiTokenPrincipalById(createdWith.id))
    if (creator === null) throw problems.notFound()
    return { ...creator, credential: { kind: 'link', createdWith: creator.credential, disposition } }
  }

/**
 * Authenticates a request by the token in the URL of a calendar feed.
 *
 * @throws Problem 404, or 410 if the feed was revoked
 */
export type AuthenticateFeed = (feedId: string, token: string) => Promise<FeedPrincipal>

/** The id is not validated yet. */
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export const createAuthenticateFeed =
  (feedLinks: FeedLinks): AuthenticateFeed =>
  async (feedId, token) => {
    const principal = uuid.test(feedId) ? await feedLinks(feedId, token) : null
    if (principal === null) throw problems.notFound()
    if (principal === 'revoked') throw problems.feedRevoked()
    return principal
  }
