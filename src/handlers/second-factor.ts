import type { AttemptKeys } from '../auth/attempts.ts'
import type { CheckPassword } from '../services/check-password.ts'
import { newRecoveryCodes } from '../auth/recovery-codes.ts'
import { readCode, sealSecret, stepOf } from '../auth/second-factor.ts'
import { newTotpSecret, otpauthUri, qrCode, totpSecretText } from '../auth/totp.ts'
import { insertAttempt } from '../db/attempts.ts'
import { insertFailure } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import {
  confirmSecondFactor,
  deleteSecondFactor,
  insertSecondFactor,
  type SecondFactor,
  selectSecondFactor,
  selectSecondFactorState,
} from '../db/second-factors.ts'
import type { Client } from '../domain/audit.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import type { Handlers } from '../contract/operation.ts'
import { problems } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  readonly checkPassword: CheckPassword
  readonly attemptKeys: AttemptKeys
  readonly secondFactorKeys: KeyRing
}

/** The operations of the contract's tag `second-factor`. */
export const secondFactorHandlers = ({ db, checkPassword, attemptKeys, secondFactorKeys }: Deps) => {
  const countAttempt = async ({ userId }: SessionPrincipal): Promise<Buffer> => {
    const attemptKey = attemptKeys.ofSecondFactor(userId)
    const wait = await insertAttempt(db, attemptKey)
    if (wait > 0) throw problems.tooManyAttempts(wait)
    return attemptKey
  }

  return {
    async getSecondFactor({ principal }) {
      return { status: 200, body: await selectSecondFactorState(db, principal) }
    },

    async enrolSecondFactor({ body, principal, client }) {
      const checked = await checkPassword(principal, client, body.password, '/password')
      const plain = newTotpSecret()
      const secret = sealSecret(secondFactorKeys, principal.userId, plain)
      const username = await insertSecondFactor(db, principal, client, { ...checked, secret })
      if (username === null) throw problems.secondFactorEnabled()
      const uri = otpauthUri(plain, username)
      return {
        status: 201,
        headers: { location: '/auth/second-factor' },
        body: { secret: totpSecretText(plain), otpauth_uri: uri, qr_code: await qrCode(uri) },
      }
    },

    async confirmSecondFactor({ body, principal, client }) {
      const factor = await selectSecondFactor(db, principal)
      if (factor === null) throw problems.secondFactorNotEnrolled()
      if (factor.isConfirmed) throw problems.secondFactorEnabled()
      const attemptKey = await countAttempt(principal)
      const step = stepOf(secondFactorKeys, factor, body.code)
      if (step === null) throw await wrongCode(db, principal, client)
      const { codes, hashes } = newRecoveryCodes()
      const confirmed = { secret: factor.secret, step, recoveryHashes: hashes, attemptKey }
      const isConfirmed = await confirmSecondFactor(db, principal, client, confirmed)
      if (!isConfirmed) throw problems.secondFactorEnabled()
      return { status: 200, body: { recovery_codes: codes } }
    },

    async disableSecondFactor({ body, principal, client }) {
      const factor = await confirmedFactor(db, principal)
      const { attemptKey: passwordKey } = await checkPassword(principal, client, body.password, '/password')
      const codeKey = await countAttempt(principal)
      const code = readCode(secondFactorKeys, factor, body.code)
      const isDisabled =
        code && (await deleteSecondFactor(db, principal, client, { code, codeKey, passwordKey }))
      if (isDisabled !== true) throw await wrongCode(db, principal, client)
      return { status: 204 }
    },
  } satisfies Partial<Handlers>
}

const confirmedFactor = async (db: Database, principal: SessionPrincipal): Promise<SecondFactor> => {
  const factor = await selectSecondFactor(db, principal)
  if (factor === null || !factor.isConfirmed) throw problems.secondFactorNotEnrolled()
  return factor
}

/** Puts down that a code was wrong, and answers with the problem. */
const wrongCode = async (db: Database, principal: SessionPrincipal, client: Client): Promise<Error> => {
  await insertFailure(db, 'proof.failed', { client, principal, userId: principal.userId })
  return problems.wrongCode()
}
