import type { AttemptKeys } from '../auth/attempts.ts'
import { readCode } from '../auth/second-factor.ts'
import type { OpContext } from '../db/engine/context.ts'
import { updateAuthenticatedByCode, updateAuthenticatedByPassword } from '../db/reauthentication.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import { countCodeAttempt, expectConfirmedFactor, recordWrongCode } from './check-code.ts'
import type { CheckPassword, PasswordInput } from './check-password.ts'

/** Renews the authentication of the caller's session. */
export interface Reauthenticate {
  /** @throws Problem 422 when the password is wrong, 429 after too many wrong passwords */
  byPassword(ctx: OpContext<SessionPrincipal>, input: PasswordInput): Promise<void>
  /** @throws Problem 409 without a second factor, 422 when the code is wrong, 429 after too many wrong codes */
  byCode(ctx: OpContext<SessionPrincipal>, text: string): Promise<void>
}

interface Deps {
  readonly checkPassword: CheckPassword
  readonly attemptKeys: AttemptKeys
  readonly secondFactorKeys: KeyRing
}

export const createReauthenticate = ({
  checkPassword,
  attemptKeys,
  secondFactorKeys,
}: Deps): Reauthenticate => ({
  async byPassword(ctx, input) {
    const checked = await checkPassword(ctx, input)
    const isRenewed = await updateAuthenticatedByPassword(ctx, checked)
    if (!isRenewed) throw problems.wrongCurrentPassword(input.pointer)
  },

  async byCode(ctx, text) {
    const factor = await expectConfirmedFactor(ctx)
    const attemptKey = await countCodeAttempt(ctx, attemptKeys, factor.userId)
    const code = readCode(secondFactorKeys, factor, text)
    const isRenewed = code !== null && (await updateAuthenticatedByCode(ctx, { code, attemptKey }))
    if (!isRenewed) throw await recordWrongCode(ctx)
  },
})
