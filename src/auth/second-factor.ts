import type { Code, SecondFactor } from '../db/second-factors.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { hashRecoveryCode } from './recovery-codes.ts'
import { open, seal } from './seal.ts'
import { totpStep } from './totp.ts'

/** Seals a user's TOTP secret for the database. */
export const sealSecret = (keys: KeyRing, userId: string, secret: Buffer): Buffer =>
  seal(keys, secret, userId)

/** The time step of a TOTP code of the factor; null for a wrong code, and when no key opens the secret. */
export const stepOf = (keys: KeyRing, { userId, secret }: SecondFactor, code: string): number | null => {
  const opened = open(keys, secret, userId)
  return opened && totpStep(opened.plaintext, code, Date.now())
}

/** Reads a TOTP code or a recovery code; null when it cannot be right. */
export const readCode = (keys: KeyRing, factor: SecondFactor, code: string): Code | null => {
  // Authenticators show a code in two groups of three.
  const step = stepOf(keys, factor, code.replaceAll(' ', ''))
  if (step !== null) return { step }
  const recoveryHash = hashRecoveryCode(code)
  return recoveryHash && { recoveryHash }
}
