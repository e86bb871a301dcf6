import { createHash, randomBytes } from 'node:crypto'

/** Lets secret scanners, and people who read a configuration, recognize a token. */
const prefix = 'twr_'
const pattern = /^twr_[A-Za-z0-9_-]{43}$/

/** A new refresh token: `twr_` and 256 random bits in base64url for the client, and the SHA-256 to store. */
export function newRefreshToken(): { token: string; hash: Buffer } {
  const token = prefix + randomBytes(32).toString('base64url')
  return { token, hash: sha256(token) }
}

/** The SHA-256 under which a token is stored, or null for a string that cannot be a refresh token. */
export function hashRefreshToken(token: string): Buffer | null {
  return pattern.test(token) ? sha256(token) : null
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
