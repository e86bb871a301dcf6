import type { AttemptKeys } from '../../auth/attempts.ts'
import { lockOwnAccount, type OwnAccount } from '../../db/accounts/lock.ts'
import { forgetAttempts } from '../../db/accounts/attempts.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { renewAuthentication } from '../../db/accounts/reauthentication.ts'
import { selectOwnEnrollment } from '../../db/accounts/second-factors.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { SessionPrincipal } from '../../domain/shared/permissions.ts'
import { countCodeAttempt, expectConfirmed, proveCode, recordWrongCode } from './check-code.ts'
import type { CheckPassword, PasswordInput } from './check-password.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectSignedIn } from '../shared/expectations.ts'

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
    await transaction(ctx, async (tx) => {
      const account = expectSignedIn(await lockOwnAccount(tx))
      checked.expectStill(account)
      await renew(tx, account, checked.attemptKey)
    })
  },

  async byCode(ctx, text) {
    expectConfirmed(await selectOwnEnrollment(ctx))
    const attemptKey = await countCodeAttempt(ctx, attemptKeys, ctx.principal.userId)
    const isProven = await transaction(ctx, async (tx) => {
      const account = expectSignedIn(await lockOwnAccount(tx))
      const secondFactor = expectConfirmed(account.secondFactor)
      if (!(await proveCode(tx, secondFactorKeys, secondFactor, text))) return false
      await renew(tx, account, attemptKey)
      return true
    })
    if (!isProven) throw await recordWrongCode(ctx)
  },
})

const renew = async (
  tx: TransactionContext<SessionPrincipal>,
  account: OwnAccount,
  attemptKey: Buffer | null,
): Promise<void> => {
  await pipeline(tx.db, {
    authentication: () => renewAuthentication(tx, account),
    attempts: () => attemptKey && forgetAttempts(tx, attemptKey),
    audit: () => recordAudit(tx, 'session.reauthenticated', { userId: account.id }),
  })
}
