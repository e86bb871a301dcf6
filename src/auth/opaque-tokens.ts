import { createHmac, type KeyObject, randomBytes } from 'node:crypto'
import { sha256 } from './sha256.ts'

/** A token for the client, and the SHA-256 to store. */
export interface NewToken {
  readonly token: string
  readonly hash: Buffer
}

/**
 * A type of opaque token: a recognizable prefix, for secret scanners and people, and 256 bits in base64url, random by default.
 * `hashOf` returns null for a malformed token.
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
 * The successor of a refresh token. It is derived, not random, so that a repeated refresh returns the same token although only
 * hashes are stored. Deriving it requires the key, so the holder of `token` cannot.
 */
export const nextRefreshToken = (key: KeyObject, token: string): NewToken =>
  refreshTokens.create(createHmac('sha256', key).update(token).digest())

/** A sign-in challenge: single-use proof of a correct password while the second factor is pending. */
export const { create: newChallenge, hashOf: hashChallenge } = opaqueTokens('twc_')

/** Undoes a change of email address. Single-use. */
export const { create: newUndoToken, hashOf: hashUndoToken } = opaqueTokens('twu_')

/** Accepts an invitation to a project. Single-use. */
export const { create: newInvitationToken, hashOf: hashInvitationToken } = opaqueTokens('twi_')

/** Reads a calendar feed. */
export const { create: newFeedToken, hashOf: hashFeedToken } = opaqueTokens('twf_')

/** Sets a new password. Single-use. */
export const { create: newResetToken, hashOf: hashResetToken } = opaqueTokens('twx_')

/** Exchanges an identity that a provider has authenticated. Single-use. */
export const { create: newOidcCode, hashOf: hashOidcCode } = opaqueTokens('two_')
