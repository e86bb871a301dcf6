import { createHmac, type KeyObject } from 'node:crypto'
import type { Client } from '../domain/activity/audit.ts'
import { networkOf } from '../domain/shared/network.ts'

/**
 * The keys of the counters of failed attempts. Password attempts are counted per address (or user) and network, so that an
 * attacker in another network cannot lock out a user, and unknown addresses behave like known ones. Second factor attempts are
 * counted per user only, because six digits could be guessed from many networks by an attacker who knows the password. Codes of an
 * identity provider are counted per provider and network: it is not known whose they are.
 */
export interface AttemptKeys {
  /** `name` is the email address or the username of the attempt. */
  signInKey(name: string, client: Client): Buffer
  passwordKey(userId: string, client: Client): Buffer
  secondFactorKey(userId: string): Buffer
  providerCodeKey(provider: string, client: Client): Buffer
}

/** Keys are HMACs, because a user may type the password into the address field. */
export const createAttemptKeys = (key: KeyObject): AttemptKeys => {
  const keyOf = (...parts: readonly string[]): Buffer =>
    createHmac('sha256', key).update(JSON.stringify(parts)).digest()
  return {
    signInKey: (name, { address }) => keyOf('sign-in', name, networkOf(address)),
    passwordKey: (userId, { address }) => keyOf('password', userId, networkOf(address)),
    secondFactorKey: (userId) => keyOf('second-factor', userId),
    providerCodeKey: (provider, { address }) => keyOf('provider-code', provider, networkOf(address)),
  }
}
