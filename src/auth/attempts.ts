import { createHmac, type KeyObject } from 'node:crypto'
import type { Client } from '../domain/audit.ts'
import { networkOf } from '../domain/network.ts'

/**
 * The keys that failed attempts are counted by. Those at a password are counted by the typed address or the user, and the
 * client's network, so that attempts from elsewhere lock nobody out, and known and unknown addresses are treated alike.
 * Those at a second factor are counted by user alone: whoever gets that far knows the password, and six digits must not
 * be guessed from many networks.
 */
export interface AttemptKeys {
  ofSignIn(email: string, client: Client): Buffer
  ofPassword(userId: string, client: Client): Buffer
  ofSecondFactor(userId: string): Buffer
}

/** Keyed hashes, since a password may have been typed in place of the address. */
export const createAttemptKeys = (key: KeyObject): AttemptKeys => {
  const keyOf = (...parts: readonly string[]): Buffer =>
    createHmac('sha256', key).update(JSON.stringify(parts)).digest()
  return {
    ofSignIn: (email, { address }) => keyOf('sign-in', email, networkOf(address)),
    ofPassword: (userId, { address }) => keyOf('password', userId, networkOf(address)),
    ofSecondFactor: (userId) => keyOf('second-factor', userId),
  }
}
