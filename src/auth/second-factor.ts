import type { Database } from '../db/engine/client.ts'
import { type Code, type SecondFactor, selectSecondFactors, updateSeal } from '../db/second-factors.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { hashRecoveryCode } from './recovery-codes.ts'
import { open, seal } from './seal.ts'
import { totpStep } from './totp.ts'

/** Seals a user's TOTP secret for the database. */
export const sealSecret = (keys: KeyRing, userId: string, secret: Buffer): Buffer =>
  seal(keys, secret, userId)

/** The time step of a TOTP code of the factor; null for a wrong code, and when no key opens the secret any more. */
export const stepOf = (keys: KeyRing, { userId, secret }: SecondFactor, code: string): number | null => {
  const opened = open(keys, secret, userId)
  return opened && totpStep(opened.plaintext, code, Date.now())
}

/** What a code is to the database, be it a TOTP code or a recovery code; null when it cannot be right. */
export const readCode = (keys: KeyRing, factor: SecondFactor, code: string): Code | null => {
  // Authenticators show a code in two groups of three.
  const step = stepOf(keys, factor, code.replaceAll(' ', ''))
  if (step !== null) return { step }
  const recoveryHash = hashRecoveryCode(code)
  return recoveryHash && { recoveryHash }
}

const batch = 500
const firstId = '00000000-0000-0000-0000-000000000000'

/** Seals every secret with the newest key, so that the earlier ones can be dropped. */
export const resealSecrets = async (db: Database, keys: KeyRing): Promise<void> => {
  for (let after: string | undefined = firstId; after !== undefined;) {
    const factors = await selectSecondFactors(db, after, batch)
    for (const { userId, secret } of factors) {
      const opened = open(keys, secret, userId)
      if (opened === null || opened.isNewest) continue
      const resealed = seal(keys, opened.plaintext, userId)
      await updateSeal(db, { user_id: userId, old_secret: secret, new_secret: resealed })
    }
    after = factors.at(-1)?.userId
  }
}
