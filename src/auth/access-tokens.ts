import fastifyJwt, { type FastifyJWTOptions, type JWT } from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Secrets } from './keys.ts'

/** Seconds until an access token expires. */
export const accessTokenLifetime = 900

const issuer = 'taskwright'
const audience = 'taskwright-api'

/** How far the clocks of two instances may differ, in milliseconds. */
const clockTolerance = 30_000

/** How many tokens are known again without being verified again: each takes half a kilobyte. */
const mostRemembered = 10_000

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** What an access token (RFC 7519) proves. */
export interface AccessClaims {
  readonly userId: string
  readonly sessionId: string
}

/** Everything else that an access token is made of: the same values make the same token, byte for byte. */
export interface Issuance {
  /** Milliseconds since the epoch. */
  readonly issuedAt: number
  /** The claim `jti`. */
  readonly tokenId: string
  /** The index of the signing key among the secrets; 0 is the active one. */
  readonly keyIndex: number
}

/** Issues and verifies access tokens. */
export interface AccessTokens {
  issue(claims: AccessClaims, issuance: Issuance): string
  /** Null for a token that is malformed, expired, or not exactly one of ours. */
  verify(token: string): AccessClaims | null
}

/** One algorithm, one issuer, one audience, and every claim required. */
const jwtOptions = (secret: Buffer): FastifyJWTOptions => ({
  secret,
  sign: { algorithm: 'HS256', iss: issuer, aud: audience, expiresIn: accessTokenLifetime },
  verify: {
    algorithms: ['HS256'],
    allowedIss: issuer,
    allowedAud: audience,
    requiredClaims: ['sub', 'sid', 'iss', 'aud', 'exp', 'iat', 'jti'],
    clockTolerance,
  },
})

/** What a verified token says until it expires, in milliseconds since the epoch. */
interface Verified {
  readonly claims: AccessClaims
  readonly expiresAt: number
}

/**
 * Access tokens by @fastify/jwt, which `app` gets once for each secret. Verified ones are remembered by their text: the
 * library's own cache would hash that for each request.
 */
export const createAccessTokens = async (
  app: FastifyInstance,
  [newest, ...earlier]: Secrets,
): Promise<AccessTokens> => {
  const activeSigner = await registerJwt(app, newest)
  const verifiers = [activeSigner, ...(await Promise.all(earlier.map((secret) => registerJwt(app, secret))))]
  const remembered = new LRUCache<string, Verified>({ max: mostRemembered })
  const verifyAnew = (token: string): Verified | null => {
    for (const verifier of verifiers) {
      const payload = verifiedPayload(verifier, token)
      if (payload !== null) return readPayload(payload)
    }
    return null
  }
  return {
    issue({ userId, sessionId }, { issuedAt, tokenId, keyIndex }) {
      const signer = verifiers[keyIndex] ?? activeSigner
      return signer.sign({ sub: userId, sid: sessionId, jti: tokenId, iat: Math.floor(issuedAt / 1_000) })
    },
    verify(token) {
      const known = remembered.get(token)
      if (known !== undefined && Date.now() <= known.expiresAt) return known.claims
      const verified = verifyAnew(token)
      if (verified === null) return null
      remembered.set(token, verified)
      return verified.claims
    },
  }
}

/** Registers the plugin in a context of its own, since it can be in each only once. */
const registerJwt = async (app: FastifyInstance, secret: Buffer): Promise<JWT> => {
  const { promise, resolve } = Promise.withResolvers<JWT>()
  await app.register(async (context) => {
    await context.register(fastifyJwt, jwtOptions(secret))
    resolve(context.jwt)
  })
  return promise
}

const verifiedPayload = (jwt: JWT, token: string): object | null => {
  try {
    return jwt.verify<object>(token)
  } catch {
    return null
  }
}

const readPayload = (payload: object): Verified | null => {
  if (!('sub' in payload && 'sid' in payload && 'aud' in payload && 'exp' in payload)) return null
  const { sub, sid, aud, exp } = payload
  // The library also takes a list of audiences.
  if (aud !== audience || !isId(sub) || !isId(sid) || typeof exp !== 'number') return null
  return { claims: { userId: sub, sessionId: sid }, expiresAt: exp * 1_000 + clockTolerance }
}

const isId = (value: unknown): value is string => typeof value === 'string' && uuid.test(value)
