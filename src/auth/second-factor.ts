import type { SecondFactor } from '../db/accounts/lock.ts'
import type { SecondFactorCode } from '../db/accounts/second-factors.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'
import { hashRecoveryCode } from './recovery-codes.ts'
import { open, seal } from './seal.ts'
import { totpStep } from './totp.ts'

/** Seals a user's TOTP secret for the database. */
export const sealSecret = (keys: KeyRing, userId: string, secret: Buffer): Buffer =>
  seal(keys, secret, userId)

/** The time step of a TOTP code; null if the code is wrong or no key opens the secret. */
export const stepOf = (keys: KeyRing, { userId, secret }: SecondFactor, code: string): number | null => {
  const opened = open(keys, secret, userId)
  return opened && totpStep(opened.plaintext, code, Date.now())
}

/** Parses a TOTP code or a recovery code; null if it is neither. Recovery codes are not looked up here. */
export const readCode = (keys: KeyRing, factor: SecondFactor, code: string): SecondFactorCode | null => {
  // Authenticator apps show a code as two groups of three digits.
  const step = stepOf(keys, factor, code.replaceAll(' ', ''))
  if (step !== null) return { step }
  const recoveryHash = hashRecoveryCode(code)
  return recoveryHash && { recoveryHash }
}
