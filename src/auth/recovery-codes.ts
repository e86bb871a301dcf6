import { randomText } from './random-text.ts'
import { sha256 } from './sha256.ts'

const count = 10

/** Crockford's base32: no i, l, o and u. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const pattern = /^[0-9a-hjkmnp-tv-z]{16}$/

/**
 * Creates recovery codes in the form `xxxx-xxxx-xxxx-xxxx`, and the SHA-256 of each to store. They have 80 random bits and
 * cannot be guessed, so they do not need the slow hash of passwords.
 */
export const newRecoveryCodes = (): { codes: string[]; hashes: Buffer[] } => {
  const bare = Array.from({ length: count }, () => randomText(alphabet, 16))
  return { codes: bare.map((code) => code.replaceAll(/.{4}(?!$)/g, '$&-')), hashes: bare.map(sha256) }
}

/**
 * The stored SHA-256 of a code; null for a malformed code. Ignores case and grouping, and reads letters that look like digits
 * as digits.
 */
export const hashRecoveryCode = (text: string): Buffer | null => {
  const bare = text.toLowerCase().replaceAll(/[\s-]/g, '').replaceAll('o', '0').replaceAll(/[il]/g, '1')
  return pattern.test(bare) ? sha256(bare) : null
}
