import type { AttemptKeys } from '../../auth/attempts.ts'
import type { PasswordHasher } from '../../auth/passwords.ts'
import type { OwnAccount } from '../../db/accounts/lock.ts'
import { insertAttempt } from '../../db/accounts/attempts.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { selectOwnPassword } from '../../db/accounts/passwords.ts'
import type { SessionPrincipal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext } from '../shared/context.ts'
import { expectProven } from '../shared/expectations.ts'

/** A current password from a request. */
export interface PasswordInput {
  /** Undefined for an account without one, which a recent authentication proves instead. */
  readonly password: string | undefined
  /** JSON Pointer into the body. */
  readonly pointer: string
}

/** What proves that a request comes from the user of the account. */
export interface CheckedPassword {
  /** The key of the counter of attempts; null without a password. */
  readonly attemptKey: Buffer | null
  /**
   * Requires that it still holds for the locked account.
   *
   * @throws Problem 422 when the password has changed, 403 when it is needed that the session has authenticated recently
   */
  expectStill(account: OwnAccount): void
}

/**
 * Checks the caller's password.
 *
 * @throws Problem 400 when it is missing, 409 when the account has none, 422 when it is wrong, 429 after too many wrong passwords
 */
export type CheckPassword = (
  ctx: OpContext<SessionPrincipal>,
  input: PasswordInput,
) => Promise<CheckedPassword>

interface Deps {
  readonly passwords: PasswordHasher
  readonly attemptKeys: AttemptKeys
  readonly usablePassword: UsablePassword
}

interface StoredAccount {
  readonly passwordHash: string | null
  /** Whether an operator has exempted the account from OIDC_ONLY. */
  readonly mayUsePassword: boolean
}

/** The hash of the password of an account. With OIDC_ONLY, an account that is not exempted is one without a password; null then. */
export type UsablePassword = (account: StoredAccount) => string | null

export const createUsablePassword =
  ({ isOnly }: { readonly isOnly: boolean }): UsablePassword =>
  ({ passwordHash, mayUsePassword }) =>
    isOnly && !mayUsePassword ? null : passwordHash

export const createCheckPassword =
  ({ passwords, attemptKeys, usablePassword }: Deps): CheckPassword =>
  async (ctx, { password, pointer }) => {
    const { userId } = ctx.principal
    if (password === undefined) {
      if (usablePassword(await expectStored(ctx)) !== null) throw problems.passwordRequired(pointer)
      return {
        attemptKey: null,
        expectStill: (account) => {
          if (usablePassword(account) !== null) throw problems.passwordRequired(pointer)
          expectProven({ is_proven: account.isProven })
        },
      }
    }
    const attemptKey = attemptKeys.passwordKey(userId, ctx.client)
    // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
    const [wait, stored] = await Promise.all([insertAttempt(ctx, attemptKey), expectStored(ctx)])
    if (wait > 0) throw problems.tooManyAttempts(wait)
    const passwordHash = usablePassword(stored)
    if (passwordHash === null) throw problems.noPassword()
    const { valid } = await passwords.verify(passwordHash, password)
    if (!valid) {
      await recordAudit(ctx, 'proof.failed', { userId })
      throw problems.wrongCurrentPassword(pointer)
    }
    return {
      attemptKey,
      expectStill: (account) => {
        if (usablePassword(account) !== passwordHash) throw problems.wrongCurrentPassword(pointer)
      },
    }
  }

/** @throws Problem 401 when the caller was disabled or deleted since they were authenticated */
const expectStored = async (ctx: OpContext<SessionPrincipal>): Promise<StoredAccount> => {
  const stored = await selectOwnPassword(ctx)
  if (stored === null) throw problems.invalidToken()
  return stored
}
