import fastifyJwt, { type FastifyJWTOptions, type JWT } from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Secrets } from './keys.ts'

/** Seconds until an access token expires. */
export const accessTokenLifetime = 900

const issuer = 'taskwright'
const audience = 'taskwright-api'

/** Tolerated difference between the clocks of instances, which follow the database's, in milliseconds. */
const clockTolerance = 30_000

/** Maximum number of verified tokens in the cache, half a kilobyte each. */
const maxCached = 10_000

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The claims of an access token (RFC 7519). */
export interface AccessClaims {
  readonly userId: string
  readonly sessionId: string
}

/** The remaining inputs of an access token. Equal inputs produce identical tokens. */
export interface Issuance {
  /** Milliseconds since the epoch. */
  readonly issuedAt: number
  /** The claim `jti`. */
  readonly tokenId: string
  /** The index of the signing key among the secrets; 0 is the active one. */
  readonly keyIndex: number
}

/** The claims of a verified token, and its expiry in milliseconds since the epoch. */
export interface VerifiedClaims extends AccessClaims {
  readonly expiresAt: number
}

export interface AccessTokens {
  issue(claims: AccessClaims, issuance: Issuance): string
  /** Null if the token is malformed, expired or not issued by this service. */
  verify(token: string): VerifiedClaims | null
}

/** Accepts only one algorithm, issuer and audience, and requires all claims. */
const jwtOptions = (secret: Buffer): FastifyJWTOptions => ({
  secret,
  sign: { algorithm: 'HS256', iss: issuer, aud: audience, expiresIn: accessTokenLifetime },
  verify: {
    algorithms: ['HS256'],
    allowedIss: issuer,
    allowedAud: audience,
    requiredClaims: ['sub', 'sid', 'iss', 'aud', 'exp', 'iat', 'jti'],
    clockTolerance,
    // `verify` below checks the expiry, by the clock of the database.
    ignoreExpiration: true,
  },
})

/**
 * Registers @fastify/jwt once per secret. Verified tokens are cached by their text, because the library's own cache would
 * hash the token on each request.
 */
export const createAccessTokens = async (
  app: FastifyInstance,
  [active, ...earlier]: Secrets,
  now: () => number,
): Promise<AccessTokens> => {
  const activeSigner = await registerJwt(app, active)
  const verifiers = [activeSigner, ...(await Promise.all(earlier.map((secret) => registerJwt(app, secret))))]
  const cached = new LRUCache<string, VerifiedClaims>({ max: maxCached })
  const verifyUncached = (token: string): VerifiedClaims | null => {
    for (const verifier of verifiers) {
      const payload = verifiedPayload(verifier, token)
      if (payload !== null) return readPayload(payload)
    }
    return null
  }
  /** Whether a token is from before the clock was set back by more than its lifetime: it would be valid for as much longer. */
  const isAhead = ({ expiresAt }: VerifiedClaims): boolean =>
    expiresAt - clockTolerance - now() > 2 * accessTokenLifetime * 1_000
  return {
    issue({ userId, sessionId }, { issuedAt, tokenId, keyIndex }) {
      const signer = verifiers[keyIndex] ?? activeSigner
      return signer.sign({ sub: userId, sid: sessionId, jti: tokenId, iat: Math.floor(issuedAt / 1_000) })
    },
    verify(token) {
      const known = cached.get(token)
      const verified = known ?? verifyUncached(token)
      if (verified === null || now() > verified.expiresAt || isAhead(verified)) return null
      if (known === undefined) cached.set(token, verified)
      return verified
    },
  }
}

/** Registers the plugin in a separate context, because a context allows it only once. */
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

const readPayload = (payload: object): VerifiedClaims | null => {
  if (!('sub' in payload && 'sid' in payload && 'aud' in payload && 'exp' in payload)) return null
  const { sub, sid, aud, exp } = payload
  // The library also accepts a list of audiences.
  if (aud !== audience || !isId(sub) || !isId(sid) || typeof exp !== 'number') return null
  return { userId: sub, sessionId: sid, expiresAt: exp * 1_000 + clockTolerance }
}

const isId = (value: unknown): value is string => typeof value === 'string' && uuid.test(value)
