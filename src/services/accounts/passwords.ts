import type { Credentials } from '../../auth/credentials.ts'
import { hashResetToken, newResetToken } from '../../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../../auth/passwords.ts'
import { lockAccount, lockOwnAccount } from '../../db/accounts/lock.ts'
import { forgetAttempts } from '../../db/accounts/attempts.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { discardSecondFactor, endAccess } from '../../db/accounts/end-access.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { pipeline, pipelineEach } from '../../db/engine/pipeline.ts'
import { removeIdentities } from '../../db/accounts/identities.ts'
import { findUserOfToken, insertOneTimeToken } from '../../db/accounts/one-time-tokens.ts'
import {
  lockUserByEmail,
  setOwnPassword,
  setPasswordOf,
  setPasswordUse,
  takeResetToken,
} from '../../db/accounts/passwords.ts'
import { lockUser } from '../../db/accounts/users.ts'
import type { Principal, SessionPrincipal } from '../../domain/shared/permissions.ts'
import type { Mailer } from '../../mail/mailer.ts'
import { problems } from '../../problems/problems.ts'
import type { CheckPassword, UsablePassword } from './check-password.ts'
import { type OpContext, thenForget, transaction } from '../shared/context.ts'
import {
  expectUntagged,
  expectMay,
  expectProven,
  expectSeen,
  expectSignedIn,
} from '../shared/expectations.ts'
import { leaveRuledTeams } from '../projects/ruled-teams.ts'

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
  /** Sets a new password, and unlinks the identities of the account. @throws Problem 401 for an invalid token */
  reset(ctx: OpContext, input: PasswordReset): Promise<void>
  /** Sets another user's password, and unlinks their identities. */
  set(ctx: OpContext<Principal>, input: PasswordSetting): Promise<void>
}

interface Deps {
  readonly passwords: PasswordHasher
  readonly checkPassword: CheckPassword
  readonly usablePassword: UsablePassword
  /** Whether passwords are closed, but for accounts that an operator has exempted. */
  readonly isOnly: boolean
  readonly credentials: Credentials
  readonly mailer: Mailer
  readonly log: Log
}

interface Log {
  warn(fields: object, message: string): void
}

/** Seconds for which a token to reset a password is valid. */
export const resetTokenLifetime = 1_800

const maxMailsPerHour = 3

/** A password that an administrator sets. */
interface NewPassword {
  readonly userId: string
  readonly newHash: string
  /** Whether the user's second factor is deleted too. */
  readonly resetsSecondFactor: boolean
  /** Whether passwords are closed, but for accounts that an operator has exempted. */
  readonly isOnly: boolean
}

/** What a new password has unlinked. */
interface Unlinked {
  readonly userId: string
  /** The address of the account. */
  readonly email: string
  /** The issuers of its identities. */
  readonly issuers: readonly string[]
}

/** Unlinks the identities of a locked user, whose sessions were ended before. Returns their issuers. */
const unlinkAll = async (
  tx: TransactionContext,
  userId: string,
  actor: { readonly actorId?: string } = {},
): Promise<readonly string[]> => {
  const issuers = await removeIdentities(tx, userId)
  await pipelineEach(tx.db, issuers, () => recordAudit(tx, 'identity.unlinked', { userId, ...actor }))
  return issuers
}

/**
 * Sets another user's password, ends their sessions and unlinks their identities: anybody who got in can have linked one. An account
 * that OIDC_ONLY keeps from using its password keeps them.
 */
export const setPassword = (
  ctx: OpContext<Principal>,
  { userId, newHash, resetsSecondFactor, isOnly }: NewPassword,
): Promise<Unlinked> =>
  transaction(ctx, async (tx) => {
    const seen = expectSeen('user.see', await lockUser(tx, userId, { purpose: 'change' }))
    const user = expectMay('user.set_password', seen)
    expectProven(user)
    expectUntagged(tx)
    const { hadSecondFactor, issuers } = await pipeline(tx.db, {
      hadSecondFactor: () => resetsSecondFactor && discardSecondFactor(tx, userId),
      password: () => setPasswordOf(tx, user, newHash),
      access: () => endAccess(tx, userId),
      issuers: () => (isOnly && !user.may_use_password ? [] : unlinkAll(tx, userId)),
      audit: () => recordAudit(tx, 'password.set', { userId }),
    })
    if (hadSecondFactor) await recordAudit(tx, 'second_factor.disabled', { userId })
    return { userId, email: user.email, issuers }
  })

/** Tells the user what was unlinked, and ends the memberships that came with it. */
const announceUnlinked = async (
  ctx: OpContext,
  { userId, email, issuers }: Unlinked,
  { mailer, log }: Pick<Deps, 'mailer' | 'log'>,
): Promise<void> => {
  if (issuers.length > 0) mailer.sendIdentitiesUnlinked({ to: email })
  await leaveRuledTeams(ctx, { userId, issuers }, log)
}

/** Exempts an account from OIDC_ONLY, or ends that. For the shell. */
export const allowPassword = (ctx: OpContext<Principal>, userId: string, isAllowed: boolean): Promise<void> =>
  transaction(ctx, async (tx) => {
    const seen = expectSeen('user.see', await lockUser(tx, userId, { purpose: 'change' }))
    await setPasswordUse(tx, expectMay('user.set_password', seen), isAllowed)
  })

export const createPasswords = ({
  passwords,
  checkPassword,
  usablePassword,
  isOnly,
  credentials,
  mailer,
  log,
}: Deps): Passwords => ({
  async change(ctx, { currentPassword, newPassword }) {
    const checked = await checkPassword(ctx, { password: currentPassword, pointer: '/current_password' })
    const newHash = await passwords.hash(newPassword)
    const { userId, credential } = ctx.principal
    await thenForget(
      transaction(ctx, async (tx) => {
        const account = expectSignedIn(await lockOwnAccount(tx))
        checked.expectStill(account)
        await pipeline(tx.db, {
          password: () => setOwnPassword(tx, userId, newHash),
          attempts: () => checked.attemptKey && forgetAttempts(tx, checked.attemptKey),
          access: () => endAccess(tx, userId, { keptSession: credential.sessionId }),
          audit: () => recordAudit(tx, 'password.changed', { userId }),
        })
      }),
      () => credentials.forgetUser(userId),
    )
  },

  async requestReset(ctx, email) {
    const { token, hash } = newResetToken()
    // As many round trips for an unknown address, and a row in each case, so that the response time reveals nothing.
    const isStored = await transaction(ctx, async (tx) => {
      const user = await lockUserByEmail(tx, email)
      const mayGetMail = user !== null && usablePassword(user) !== null && user.mails < maxMailsPerHour
      const reset = { purpose: 'reset_password', hash, lifetime: resetTokenLifetime } as const
      await pipeline(tx.db, {
        token: () => mayGetMail && insertOneTimeToken(tx, { ...reset, userId: user.id }),
        audit: () => recordAudit(tx, 'password.reset_requested', { userId: user?.id ?? null }),
      })
      return mayGetMail
    })
    if (isStored) mailer.sendPasswordReset({ to: email, token })
  },

  async reset(ctx, { token, newPassword }) {
    const hash = hashResetToken(token)
    // Checked before the new password is hashed, which is expensive.
    const userId = hash && (await findUserOfToken(ctx, { purpose: 'reset_password', hash }))
    if (hash === null || userId === null) throw problems.invalidResetToken()
    const newHash = await passwords.hash(newPassword)
    const unlinked = await thenForget(
      transaction(ctx, async (tx) => {
        const { taken, account } = await pipeline(tx.db, {
          taken: () => takeResetToken(tx, { userId, hash }),
          account: () => lockAccount(tx, userId),
        })
        if (!taken || account === null) throw problems.invalidResetToken()
        if (isOnly && !account.mayUsePassword) throw problems.passwordsClosed()
        const { issuers } = await pipeline(tx.db, {
          password: () => setOwnPassword(tx, userId, newHash),
          access: () => endAccess(tx, userId),
          issuers: () => unlinkAll(tx, userId, { actorId: userId }),
          audit: () => recordAudit(tx, 'password.reset', { userId, actorId: userId }),
        })
        return { userId, email: account.email, issuers }
      }),
      () => credentials.forgetUser(userId),
    )
    await announceUnlinked(ctx, unlinked, { mailer, log })
  },

  async set(ctx, { userId, password, resetsSecondFactor }) {
    if (isOnly) throw problems.passwordsClosed()
    const newHash = await passwords.hash(password)
    const unlinked = await thenForget(setPassword(ctx, { userId, newHash, resetsSecondFactor, isOnly }), () =>
      credentials.forgetUser(userId),
    )
    await announceUnlinked(ctx, unlinked, { mailer, log })
  },
})
