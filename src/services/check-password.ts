import type { AttemptKeys } from '../auth/attempts.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import { insertAttempt } from '../db/attempts.ts'
import { recordAudit } from '../db/audit.ts'
import { selectOwnPassword } from '../db/passwords.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import type { OpContext } from './context.ts'

/** A current password from a request. */
export interface PasswordInput {
  readonly password: string
  /** JSON Pointer into the body. */
  readonly pointer: string
}

/** A correct current password. */
export interface CheckedPassword {
  /** The hash that it was verified against. */
  readonly oldHash: string
  /** The key of the counter of attempts. */
  readonly attemptKey: Buffer
}

/**
 * Checks the caller's password.
 *
 * @throws Problem 422 when it is wrong, 429 after too many wrong passwords
 */
export type CheckPassword = (
  ctx: OpContext<SessionPrincipal>,
  input: PasswordInput,
) => Promise<CheckedPassword>

interface Deps {
  readonly passwords: PasswordHasher
  readonly attemptKeys: AttemptKeys
}

export const createCheckPassword =
  ({ passwords, attemptKeys }: Deps): CheckPassword =>
  async (ctx, { password, pointer }) => {
    const { userId } = ctx.principal
    const attemptKey = attemptKeys.ofPassword(userId, ctx.client)
    const [wait, passwordHash] = await Promise.all([insertAttempt(ctx, attemptKey), selectOwnPassword(ctx)])
    if (wait > 0) throw problems.tooManyAttempts(wait)
    const { valid } = await passwords.verify(passwordHash, password)
    if (passwordHash === null) throw problems.invalidToken()
    if (valid) return { oldHash: passwordHash, attemptKey }
    await recordAudit(ctx, 'proof.failed', { userId })
    throw problems.wrongCurrentPassword(pointer)
  }
