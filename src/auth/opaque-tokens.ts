import { createHmac, type KeyObject, randomBytes } from 'node:crypto'
import { sha256 } from './sha256.ts'

/** A token for the client, and the SHA-256 to store. */
export interface NewToken {
  readonly token: string
  readonly hash: Buffer
}

/**
 * A kind of opaque token: a prefix that secret scanners and people recognize, and 256 bits in base64url, random unless
 * given. `hashOf` returns null for a string that cannot be a token of the kind.
 */
const opaqueTokens = (prefix: string) => {
  const isToken = (text: string): boolean =>
    text.startsWith(prefix) && /^[A-Za-z0-9_-]{43}$/.test(text.slice(prefix.length))
  return {
    create: (bits: Buffer = randomBytes(32)): NewToken => {
      const token = prefix + bits.toString('base64url')
      return { token, hash: sha256(token) }
    },
    hashOf: (token: string): Buffer | null => (isToken(token) ? sha256(token) : null),
  }
}

const refreshTokens = opaqueTokens('twr_')

/** The first refresh token of a session. */
export const newRefreshToken = (): NewToken => refreshTokens.create()

export const { hashOf: hashRefreshToken } = refreshTokens

/**
 * The successor of a refresh token. Derived rather than random, so that a repeated refresh gets the same token although
 * only hashes are stored. Nobody can derive it without the key, the holder of `token` included.
 */
export const nextRefreshToken = (key: KeyObject, token: string): NewToken =>
  refreshTokens.create(createHmac('sha256', key).update(token).digest())

/** Proves once that the password was right, until the second factor is proven. */
export const { create: newChallenge, hashOf: hashChallenge } = opaqueTokens('twc_')

/** Undoes a change of address, once. */
export const { create: newUndoToken, hashOf: hashUndoToken } = opaqueTokens('twu_')

/** Sets a new password, once. */
export const { create: newResetToken, hashOf: hashResetToken } = opaqueTokens('twx_')
