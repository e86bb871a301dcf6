import type { Credentials } from '../auth/credentials.ts'
import { hashResetToken, newResetToken } from '../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import type { OpContext } from '../db/engine/context.ts'
import { hasOneTimeToken } from '../db/one-time-tokens.ts'
import { insertResetToken, resetPasswordByToken, setPassword, updateOwnPassword } from '../db/passwords.ts'
import type { Principal, SessionPrincipal } from '../domain/permissions.ts'
import type { Mailer } from '../mail/mailer.ts'
import { expectDone, problems } from '../problems/problems.ts'
import type { CheckPassword } from './check-password.ts'

interface PasswordChange {
  readonly currentPassword: string
  readonly newPassword: string
}

interface PasswordReset {
  readonly token: string
  readonly newPassword: string
}

interface PasswordSetting {
  readonly userId: string
  readonly password: string
  /** Whether the user's second factor is deleted too. */
  readonly resetsSecondFactor: boolean
}

/** Changes passwords. Each change ends sessions of the user. */
export interface Passwords {
  /** @throws Problem 422 when the current password is wrong, 429 after too many wrong passwords */
  change(ctx: OpContext<SessionPrincipal>, input: PasswordChange): Promise<void>
  /** Emails a token to the account with this address, if there is one. */
  requestReset(ctx: OpContext, email: string): Promise<void>
  /** @throws Problem 401 for an invalid token */
  reset(ctx: OpContext, input: PasswordReset): Promise<void>
  /** Sets another user's password. */
  set(ctx: OpContext<Principal>, input: PasswordSetting): Promise<void>
}

interface Deps {
  readonly passwords: PasswordHasher
  readonly checkPassword: CheckPassword
  readonly credentials: Credentials
  readonly mailer: Mailer
}

export const createPasswords = ({ passwords, checkPassword, credentials, mailer }: Deps): Passwords => ({
  async change(ctx, { currentPassword, newPassword }) {
    const pointer = '/current_password'
    const checked = await checkPassword(ctx, { password: currentPassword, pointer })
    const newHash = await passwords.hash(newPassword)
    const isChanged = await updateOwnPassword(ctx, { ...checked, newHash })
    if (!isChanged) throw problems.wrongCurrentPassword(pointer)
    await credentials.forgetUser(ctx.principal.userId)
  },

  async requestReset(ctx, email) {
    const { token, hash: tokenHash } = newResetToken()
    const isStored = await insertResetToken(ctx, { email, tokenHash })
    if (isStored) mailer.sendPasswordReset({ to: email, token })
  },

  async reset(ctx, { token, newPassword }) {
    const tokenHash = hashResetToken(token)
    // Checked before the new password is hashed, which is expensive.
    const isLive =
      tokenHash !== null && (await hasOneTimeToken(ctx, { purpose: 'reset_password', hash: tokenHash }))
    if (!isLive) throw problems.invalidResetToken()
    const newHash = await passwords.hash(newPassword)
    const userId = await resetPasswordByToken(ctx, { tokenHash, newHash })
    if (userId === null) throw problems.invalidResetToken()
    await credentials.forgetUser(userId)
  },

  async set(ctx, { userId, password, resetsSecondFactor }) {
    const newHash = await passwords.hash(password)
    expectDone(await setPassword(ctx, { userId, newHash, resetsSecondFactor }))
    await credentials.forgetUser(userId)
  },
})
