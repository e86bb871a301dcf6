import type { Credentials } from '../auth/credentials.ts'
import { hashUndoToken, newResetToken, newUndoToken } from '../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import { undoEmailChange } from '../db/email-changes.ts'
import type { OpContext } from '../db/engine/context.ts'
import type { Created } from '../db/engine/idempotency.ts'
import { hasOneTimeToken } from '../db/one-time-tokens.ts'
import { insertResetTokenOf, resetTokenLifetime } from '../db/passwords.ts'
import { purgeUserOnce } from '../db/purge.ts'
import {
  deleteUser,
  insertUser,
  type NewUser,
  updateUser,
  type UserChange,
  type UserRow,
} from '../db/users.ts'
import { isInSession, type Principal, type Role, type SessionPrincipal } from '../domain/permissions.ts'
import type { Jobs } from '../jobs/registry.ts'
import type { Mailer } from '../mail/mailer.ts'
import { expectDone, problems } from '../problems/problems.ts'
import type { Reauthenticate } from './reauthenticate.ts'

interface UserCreation extends Omit<NewUser, 'passwordHash'> {
  readonly role: Role
  readonly password: string
}

interface UserUpdate {
  readonly userId: string
  readonly change: UserChange
  /** If set, renews the authentication of the caller's session first. */
  readonly currentPassword: string | undefined
}

/** A restored address, and a token to set a new password with its lifetime in seconds. */
interface RestoredAddress {
  readonly email: string
  readonly resetToken: string
  readonly resetTokenLifetime: number
}

export interface Users {
  create(ctx: OpContext<Principal>, user: UserCreation): Promise<Created>
  /** Changes a user. A change of the email address is announced to the old one; if users change their own, with an undo link. */
  update(ctx: OpContext<Principal>, update: UserUpdate): Promise<UserRow>
  remove(ctx: OpContext<Principal>, userId: string): Promise<void>
  /** @throws Problem 401 for an invalid token */
  undoEmailChange(ctx: OpContext, token: string): Promise<RestoredAddress>
}

interface Deps {
  readonly passwords: PasswordHasher
  readonly reauthenticate: Reauthenticate
  readonly credentials: Credentials
  readonly mailer: Mailer
  readonly jobs: Jobs
}

export const createUsers = ({ passwords, reauthenticate, credentials, mailer, jobs }: Deps): Users => ({
  async create(ctx, { password, ...fields }) {
    const user = await insertUser(ctx, async () => ({
      ...fields,
      passwordHash: await passwords.hash(password),
    }))
    return expectDone(user)
  },

  async update(ctx, { userId, change, currentPassword }) {
    if (currentPassword !== undefined) {
      if (!isSessionContext(ctx)) throw problems.insufficientScope('session')
      await reauthenticate.byPassword(ctx, { password: currentPassword, pointer: '/current_password' })
    }
    const { token, hash: undoHash } = newUndoToken()
    const user = expectDone(await updateUser(ctx, { id: userId, change, undoHash }))
    await credentials.forgetUser(userId)
    if (user.previous_email !== null) {
      const isOwn = userId === ctx.principal.userId
      mailer.sendEmailChanged({ to: user.previous_email, undoToken: isOwn ? token : null })
    }
    return user
  },

  async remove(ctx, userId) {
    expectDone(await deleteUser(ctx, userId))
    await purgeUserOnce(ctx.db, userId)
    await credentials.forgetUser(userId)
    jobs.wake('purge_deleted_rows')
  },

  async undoEmailChange(ctx, token) {
    const tokenHash = hashUndoToken(token)
    const isLive =
      tokenHash !== null && (await hasOneTimeToken(ctx, { purpose: 'undo_email', hash: tokenHash }))
    if (!isLive) throw problems.invalidUndoToken()
    const undone = await undoEmailChange(ctx, { tokenHash, unmatchableHash: passwords.unmatchable })
    if (undone === null) throw problems.invalidUndoToken()
    await credentials.forgetUser(undone.userId)
    const { token: resetToken, hash } = newResetToken()
    const isStored = await insertResetTokenOf(ctx, { userId: undone.userId, tokenHash: hash })
    if (!isStored) throw problems.invalidUndoToken()
    return { email: undone.email, resetToken, resetTokenLifetime }
  },
})

const isSessionContext = (ctx: OpContext<Principal>): ctx is OpContext<SessionPrincipal> =>
  isInSession(ctx.principal)
