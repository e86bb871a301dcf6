import { crc32 } from 'node:zlib'
import type { NewToken } from './opaque-tokens.ts'
import { randomText } from './random-text.ts'
import { sha256 } from './sha256.ts'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefix = 'twp_'
const checksumLength = 6
const pattern = /^twp_[0-9A-Za-z]{49}$/

/**
 * Creates an API token: `twp_`, 43 random base62 characters (256 bits), and 6 for the CRC-32 of the preceding ones. Secret
 * scanners find it by `\btwp_[0-9A-Za-z]{49}\b` and confirm it by the checksum.
 */
export const newApiToken = (): NewToken => {
  const body = prefix + randomText(base62, 43)
  const token = body + checksumOf(body)
  return { token, hash: sha256(token) }
}

/** The stored SHA-256 of a token; null for a malformed token, so that most typos need no look-up. */
export const hashApiToken = (token: string): Buffer | null =>
  pattern.test(token) && token.endsWith(checksumOf(token.slice(0, -checksumLength))) ? sha256(token) : null

/** The CRC-32 as a base62 number, most significant digit first, padded with zeros. */
const checksumOf = (text: string): string => {
  let digits = ''
  for (let rest = crc32(text); digits.length < checksumLength; rest = Math.floor(rest / 62)) {
    digits = base62.charAt(rest % 62) + digits
  }
  return digits
}
