import type { components } from '../../../generated/openapi.ts'
import type { AttemptKeys } from '../../auth/attempts.ts'
import { newRecoveryCodes } from '../../auth/recovery-codes.ts'
import { sealSecret, stepOf } from '../../auth/second-factor.ts'
import { newTotpSecret, otpauthUri, qrCode, totpSecretText } from '../../auth/totp.ts'
import { lockAccount, lockOwnAccount } from '../../db/accounts/lock.ts'
import { forgetAttempts } from '../../db/accounts/attempts.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import {
  confirmSecret,
  type Enrolled,
  removeSecondFactor,
  replaceSecret,
  selectOwnEnrollment,
  selectSecondFactorState,
} from '../../db/accounts/second-factors.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import { type Principal, relationsToUser, type SessionPrincipal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import { countCodeAttempt, expectConfirmed, proveCode, recordWrongCode } from './check-code.ts'
import type { CheckPassword } from './check-password.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectMay, expectSignedIn } from '../shared/expectations.ts'

/** An unconfirmed TOTP secret, and its URI for authenticator apps, also as an image. */
interface Enrollment {
  readonly secret: string
  readonly uri: string
  readonly qrCode: string
}

/** The caller's second factor. */
export interface SecondFactors {
  /**
   * The password proves who the caller is; without one, a recent authentication does.
   *
   * @throws Problem 409 when one is enabled, 422 when the password is wrong, 429 after too many wrong ones
   */
  enroll(ctx: OpContext<SessionPrincipal>, password: string | undefined): Promise<Enrollment>
  /**
   * Enables the enrolled second factor. Returns its recovery codes.
   *
   * @throws Problem 409 when none is enrolled or one is enabled, 422 when the code is wrong, 429 after too many wrong ones
   */
  confirm(ctx: OpContext<SessionPrincipal>, code: string): Promise<readonly string[]>
  /** @throws Problem 409 when none is enabled, 422 when the password or the code is wrong, 429 after too many wrong ones */
  disable(
    ctx: OpContext<SessionPrincipal>,
    input: { readonly password?: string; readonly code: string },
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
  async enroll(ctx, password) {
    const checked = await checkPassword(ctx, { password, pointer })
    const plain = newTotpSecret()
    const { userId } = ctx.principal
    const secret = sealSecret(secondFactorKeys, userId, plain)
    const username = await transaction(ctx, async (tx) => {
      const account = expectSignedIn(await lockOwnAccount(tx))
      checked.expectStill(account)
      if (account.secondFactor?.isConfirmed === true) throw problems.secondFactorEnabled()
      await pipeline(tx.db, {
        secret: () => replaceSecret(tx, account, secret),
        attempts: () => checked.attemptKey && forgetAttempts(tx, checked.attemptKey),
        audit: () => recordAudit(tx, 'second_factor.enrolled', { userId }),
      })
      return account.username
    })
    const uri = otpauthUri(plain, username)
    return { secret: totpSecretText(plain), uri, qrCode: await qrCode(uri) }
  },

  async confirm(ctx, code) {
    const { userId } = ctx.principal
    expectToConfirm(await selectOwnEnrollment(ctx))
    const attemptKey = await countCodeAttempt(ctx, attemptKeys, userId)
    const { codes, hashes: recoveryHashes } = newRecoveryCodes()
    const isConfirmed = await transaction(ctx, async (tx) => {
      const account = expectSignedIn(await lockOwnAccount(tx))
      const secondFactor = expectToConfirm(account.secondFactor)
      const step = stepOf(secondFactorKeys, secondFactor, code)
      if (step === null) return false
      await pipeline(tx.db, {
        secret: () => confirmSecret(tx, account, { step, recoveryHashes }),
        attempts: () => forgetAttempts(tx, attemptKey),
        audit: () => recordAudit(tx, 'second_factor.confirmed', { userId }),
      })
      return true
    })
    if (!isConfirmed) throw await recordWrongCode(ctx)
    return codes
  },

  async disable(ctx, { password, code }) {
    const { userId } = ctx.principal
    // Whether the password may be missing comes first, like all that is wrong with the request.
    const proven = password === undefined ? await checkPassword(ctx, { password, pointer }) : null
    expectConfirmed(await selectOwnEnrollment(ctx))
    const checked = proven ?? (await checkPassword(ctx, { password, pointer }))
    const codeKey = await countCodeAttempt(ctx, attemptKeys, userId)
    const isDisabled = await transaction(ctx, async (tx) => {
      const account = expectSignedIn(await lockOwnAccount(tx))
      checked.expectStill(account)
      const secondFactor = expectConfirmed(account.secondFactor)
      if (!(await proveCode(tx, secondFactorKeys, secondFactor, code))) return false
      await pipeline(tx.db, {
        secondFactor: () => removeSecondFactor(tx, account),
        attempts: () => checked.attemptKey && forgetAttempts(tx, checked.attemptKey),
        codeAttempts: () => forgetAttempts(tx, codeKey),
        audit: () => recordAudit(tx, 'second_factor.disabled', { userId }),
      })
      return true
    })
    if (!isDisabled) throw await recordWrongCode(ctx)
  },
})

/** The state of the caller's second factor. */
export const getSecondFactor = (
  ctx: OpContext<SessionPrincipal>,
): Promise<components['schemas']['SecondFactor']> => selectSecondFactorState(ctx)

/** Disables the second factor of another user. False when they have none. */
export const resetSecondFactor = (ctx: OpContext<Principal>, userId: string): Promise<boolean> =>
  transaction(ctx, async (tx) => {
    const account = await lockAccount(tx, userId)
    if (account === null || account.secondFactor === null) return false
    const relations = relationsToUser(tx.principal, userId)
    const guarded = expectMay('user.set_password', { ...account, relations })
    await pipeline(tx.db, {
      secondFactor: () => removeSecondFactor(tx, guarded),
      audit: () => recordAudit(tx, 'second_factor.disabled', { userId }),
    })
    return true
  })

/** The location of the password in a body. */
const pointer = '/password'

/** @throws Problem 409 unless a second factor waits to be confirmed */
const expectToConfirm = <F extends Enrolled>(factor: F | null): F => {
  if (factor === null) throw problems.secondFactorNotEnrolled()
  if (factor.isConfirmed) throw problems.secondFactorEnabled()
  return factor
}
