import { randomBytes } from 'node:crypto'
import { sha256 } from './sha256.ts'

/** A token for the client, and the SHA-256 to store. */
export interface NewToken {
  readonly token: string
  readonly hash: Buffer
}

/**
 * A kind of opaque token: a prefix, by which secret scanners and people recognize it, and 256 random bits in base64url.
 * `hashOf` gives null for a string that cannot be a token of the kind.
 */
const opaqueTokens = (prefix: string) => {
  const pattern = new RegExp(`^${prefix}[A-Za-z0-9_-]{43}$`)
  return {
    create: (): NewToken => {
      const token = prefix + randomBytes(32).toString('base64url')
      return { token, hash: sha256(token) }
    },
    hashOf: (token: string): Buffer | null => (pattern.test(token) ? sha256(token) : null),
  }
}

/** Each is swapped for the next one of its session. */
export const { create: newRefreshToken, hashOf: hashRefreshToken } = opaqueTokens('twr_')

/** Proves, once, that the password was right, while the second factor is still to come. */
export const { create: newChallenge, hashOf: hashChallenge } = opaqueTokens('twc_')

/** Sets a new password, once. */
export const { create: newResetToken, hashOf: hashResetToken } = opaqueTokens('twx_')
