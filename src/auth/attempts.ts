import { createHmac, type KeyObject } from 'node:crypto'
import type { Client } from '../domain/audit.ts'
import { networkOf } from '../domain/network.ts'

/**
 * Whom failed attempts are counted for. A password's are counted by what was typed and by the client's network, so that
 * nobody is kept out by what is tried elsewhere, and known and unknown addresses are counted alike. A second factor's are
 * counted by account alone: who gets that far knows the password, and six digits must not be guessed from many networks.
 */
export interface AttemptKeys {
  ofSignIn(email: string, client: Client): Buffer
  ofPassword(userId: string, client: Client): Buffer
  ofSecondFactor(userId: string): Buffer
}

/** Keyed hashes, since what was typed as an address may be a password. */
export const createAttemptKeys = (key: KeyObject): AttemptKeys => {
  const keyOf = (...parts: readonly string[]): Buffer =>
    createHmac('sha256', key).update(JSON.stringify(parts)).digest()
  return {
    ofSignIn: (email, { address }) => keyOf('sign-in', email, networkOf(address)),
    ofPassword: (userId, { address }) => keyOf('password', userId, networkOf(address)),
    ofSecondFactor: (userId) => keyOf('second-factor', userId),
  }
}
