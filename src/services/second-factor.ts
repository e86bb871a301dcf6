import type { AttemptKeys } from '../auth/attempts.ts'
import { newRecoveryCodes } from '../auth/recovery-codes.ts'
import { readCode, sealSecret, stepOf } from '../auth/second-factor.ts'
import { newTotpSecret, otpauthUri } from '../auth/totp.ts'
import type { OpContext } from '../db/engine/context.ts'
import {
  confirmSecondFactor,
  deleteSecondFactor,
  insertSecondFactor,
  selectSecondFactor,
} from '../db/second-factors.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import { countCodeAttempt, expectConfirmedFactor, recordWrongCode } from './check-code.ts'
import type { CheckPassword } from './check-password.ts'

/** An unconfirmed TOTP secret, and its URI for authenticator apps. */
interface Enrolment {
  readonly secret: Buffer
  readonly uri: string
}

/** The caller's second factor. */
export interface SecondFactors {
  /** @throws Problem 409 when one is enabled, 422 when the password is wrong, 429 after too many wrong ones */
  enrol(ctx: OpContext<SessionPrincipal>, password: string): Promise<Enrolment>
  /**
   * Enables the enrolled second factor. Returns its recovery codes.
   *
   * @throws Problem 409 when none is enrolled or one is enabled, 422 when the code is wrong, 429 after too many wrong ones
   */
  confirm(ctx: OpContext<SessionPrincipal>, code: string): Promise<readonly string[]>
  /** @throws Problem 409 when none is enabled, 422 when the password or the code is wrong, 429 after too many wrong ones */
  disable(
    ctx: OpContext<SessionPrincipal>,
    input: { readonly password: string; readonly code: string },
  ): Promise<void>
}

interface Deps {
  readonly checkPassword: CheckPassword
  readonly attemptKeys: AttemptKeys
  readonly secondFactorKeys: KeyRing
}

export const createSecondFactors = ({
  checkPassword,
  attemptKeys,
  secondFactorKeys,
}: Deps): SecondFactors => ({
  async enrol(ctx, password) {
    const checked = await checkPassword(ctx, { password, pointer: '/password' })
    const plain = newTotpSecret()
    const secret = sealSecret(secondFactorKeys, ctx.principal.userId, plain)
    const username = await insertSecondFactor(ctx, { ...checked, secret })
    if (username === null) throw problems.secondFactorEnabled()
    return { secret: plain, uri: otpauthUri(plain, username) }
  },

  async confirm(ctx, code) {
    const factor = await selectSecondFactor(ctx)
    if (factor === null) throw problems.secondFactorNotEnrolled()
    if (factor.isConfirmed) throw problems.secondFactorEnabled()
    const attemptKey = await countCodeAttempt(ctx, attemptKeys, factor.userId)
    const step = stepOf(secondFactorKeys, factor, code)
    if (step === null) throw await recordWrongCode(ctx)
    const { codes, hashes: recoveryHashes } = newRecoveryCodes()
    const { secret } = factor
    const isConfirmed = await confirmSecondFactor(ctx, { secret, step, recoveryHashes, attemptKey })
    if (!isConfirmed) throw problems.secondFactorEnabled()
    return codes
  },

  async disable(ctx, { password, code: text }) {
    const factor = await expectConfirmedFactor(ctx)
    const { attemptKey: passwordKey } = await checkPassword(ctx, { password, pointer: '/password' })
    const codeKey = await countCodeAttempt(ctx, attemptKeys, factor.userId)
    const code = readCode(secondFactorKeys, factor, text)
    const isDisabled = code !== null && (await deleteSecondFactor(ctx, { code, codeKey, passwordKey }))
    if (!isDisabled) throw await recordWrongCode(ctx)
  },
})
