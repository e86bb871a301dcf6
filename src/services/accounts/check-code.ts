import type { AttemptKeys } from '../../auth/attempts.ts'
import { readCode } from '../../auth/second-factor.ts'
import type { SecondFactor } from '../../db/accounts/lock.ts'
import { insertAttempt } from '../../db/accounts/attempts.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { type Enrolled, useCode } from '../../db/accounts/second-factors.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { SessionPrincipal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext } from '../shared/context.ts'

/** Steps shared by the operations that check a code of a second factor. */

/** @throws Problem 409 unless a second factor is confirmed */
export const expectConfirmed = <F extends Enrolled>(factor: F | null): F => {
  if (factor === null || !factor.isConfirmed) throw problems.secondFactorNotEnrolled()
  return factor
}

/**
 * Counts an attempt to enter a code of the user. Returns the key of the counter.
 *
 * @throws Problem 429 after too many wrong codes
 */
export const countCodeAttempt = async (
  ctx: OpContext,
  attemptKeys: AttemptKeys,
  userId: string,
): Promise<Buffer> => {
  const attemptKey = attemptKeys.secondFactorKey(userId)
  const wait = await insertAttempt(ctx, attemptKey)
  if (wait > 0) throw problems.tooManyAttempts(wait)
  return attemptKey
}

/** Uses a code of the confirmed second factor of a locked account. False if it is wrong or was used. */
export const proveCode = async (
  tx: TransactionContext,
  keys: KeyRing,
  secondFactor: SecondFactor,
  text: string,
): Promise<boolean> => {
  const code = readCode(keys, secondFactor, text)
  return code !== null && useCode(tx, secondFactor, code)
}

/** Records that the caller's code was wrong, and returns the problem. */
export const recordWrongCode = async (ctx: OpContext<SessionPrincipal>): Promise<Error> => {
  await recordAudit(ctx, 'proof.failed', { userId: ctx.principal.userId })
  return problems.wrongCode()
}
