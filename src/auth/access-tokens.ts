import type { FastifyJWTOptions, JWT } from '@fastify/jwt'
import { randomUUID } from 'node:crypto'

/** Seconds until an access token expires. */
export const accessTokenLifetime = 900

const issuer = 'taskwright'
const audience = 'taskwright-api'

/** How far the clocks of two instances may differ, in milliseconds. */
const clockTolerance = 30_000

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** What an access token (RFC 7519) proves. */
export interface AccessClaims {
  readonly userId: string
  readonly sessionId: string
}

/** Issues and verifies access tokens. */
export interface AccessTokens {
  issue(claims: AccessClaims): string
  /** Null for a token that is malformed, expired, or not exactly one of ours. */
  verify(token: string): AccessClaims | null
}

/** Options of @fastify/jwt: one algorithm, one issuer, one audience, and every claim required. */
export const accessTokenOptions = (secret: Buffer): FastifyJWTOptions => ({
  secret,
  sign: { algorithm: 'HS256', iss: issuer, aud: audience, expiresIn: accessTokenLifetime },
  verify: {
    algorithms: ['HS256'],
    allowedIss: issuer,
    allowedAud: audience,
    requiredClaims: ['sub', 'sid', 'iss', 'aud', 'exp', 'iat', 'jti'],
    clockTolerance,
    cache: true,
  },
})

/** Access tokens by the plugin that `accessTokenOptions` configured. */
export const createAccessTokens = (jwt: JWT): AccessTokens => ({
  issue: ({ userId, sessionId }) => jwt.sign({ sub: userId, sid: sessionId, jti: randomUUID() }),
  verify(token) {
    try {
      return readClaims(jwt.verify(token))
    } catch {
      return null
    }
  },
})

const readClaims = (payload: object): AccessClaims | null => {
  if (!('sub' in payload && 'sid' in payload && 'aud' in payload)) return null
  const { sub, sid, aud } = payload
  // The library also takes a list of audiences.
  if (aud !== audience || !isId(sub) || !isId(sid)) return null
  return { userId: sub, sessionId: sid }
}

const isId = (value: unknown): value is string => typeof value === 'string' && uuid.test(value)
