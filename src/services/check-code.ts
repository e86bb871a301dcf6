import type { AttemptKeys } from '../auth/attempts.ts'
import { insertAttempt } from '../db/attempts.ts'
import { recordAudit } from '../db/audit.ts'
import type { OpContext } from '../db/engine/context.ts'
import { type SecondFactor, selectSecondFactor } from '../db/second-factors.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'

/** Steps shared by the operations that check a code of a second factor. */

/**
 * The caller's confirmed second factor.
 *
 * @throws Problem 409 when they have none
 */
export const expectConfirmedFactor = async (ctx: OpContext<SessionPrincipal>): Promise<SecondFactor> => {
  const factor = await selectSecondFactor(ctx)
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
  const attemptKey = attemptKeys.ofSecondFactor(userId)
  const wait = await insertAttempt(ctx, attemptKey)
  if (wait > 0) throw problems.tooManyAttempts(wait)
  return attemptKey
}

/** Records that the caller's code was wrong, and returns the problem. */
export const recordWrongCode = async (ctx: OpContext<SessionPrincipal>): Promise<Error> => {
  await recordAudit(ctx, 'proof.failed', { userId: ctx.principal.userId })
  return problems.wrongCode()
}
