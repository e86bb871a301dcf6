import type { Credentials } from '../../auth/credentials.ts'
import { hashUndoToken, newResetToken, newUndoToken } from '../../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../../auth/passwords.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import {
  hasChangedEmailOften,
  leaveAddress,
  restoreAddress,
  takeUndoToken,
} from '../../db/accounts/email-changes.ts'
import { endAccess, removeCredentials, revokeApiTokens, revokeFeeds } from '../../db/accounts/end-access.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline, pipelineEach } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { removeIdentitiesSince } from '../../db/accounts/identities.ts'
import { endAccessOfUser } from '../../db/projects/memberships.ts'
import { rescheduleDigest } from '../../db/activity/notification-settings.ts'
import { findUserOfToken, insertOneTimeToken } from '../../db/accounts/one-time-tokens.ts'
import { purgeUserOnce } from '../../db/tasks/purge.ts'
import { moveRemindersOfUser } from '../../db/tasks/reminders.ts'
import { type Quotas, selectUserUsage } from '../../db/shared/quotas.ts'
import { claimInstallation } from '../../db/accounts/sign-in.ts'
import {
  type ChangeableUser,
  hideUser,
  insertUser,
  lockUser,
  type NewUser,
  selectUser,
  selectUsers,
  updateFields,
  type UserChange,
  type UserFacts,
  type UserFields,
  type UserFilter,
  type UserRow,
  viewUser,
} from '../../db/accounts/users.ts'
import { leavesNoAdministrator, mayRemoveAdministrator } from '../../domain/accounts/administrators.ts'
import type { AuditAction } from '../../domain/activity/audit.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  isInSession,
  type Permission,
  type Principal,
  relationsToUser,
  type Role,
  type SessionPrincipal,
} from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import type { Mailer } from '../../mail/mailer.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, thenForget, transaction } from '../shared/context.ts'
import {
  expectFound,
  expectMatch,
  expectMay,
  expectProven,
  expectSeen,
  expectTimeZone,
} from '../shared/expectations.ts'
import { findReplay, idempotent } from '../shared/idempotency.ts'
import { resetTokenLifetime } from './passwords.ts'
import { leaveRuledTeams } from '../projects/ruled-teams.ts'
import type { Reauthenticate } from './reauthenticate.ts'

interface UserCreation extends Omit<NewUser, 'passwordHash'> {
  readonly role: Role
  readonly password: string
}

/** A page of the users. */
export const listUsers = (ctx: OpContext<Principal>, filter: UserFilter, page: PageRequest): Promise<Page> =>
  selectUsers(ctx, filter, page)

/** @throws Problem 404 */
export const getUser = async (ctx: OpContext<Principal>, id: string): Promise<UserRow> =>
  expectFound(await selectUser(ctx, id))

/** @throws Problem 401 when the caller was deleted after authentication, or while a credential cache still had them */
export const getCurrentUser = async (ctx: OpContext<Principal>): Promise<UserRow> => {
  const user = await selectUser(ctx, ctx.principal.userId)
  if (user === null) throw problems.invalidToken()
  return user
}

/** Creates a user. The password of a repeated request is not hashed, since that is expensive. */
export const createUser = async (
  ctx: OpContext<Principal>,
  { password, ...fields }: UserCreation,
  passwords: Pick<PasswordHasher, 'hash'>,
): Promise<Created> => {
  const newUserId = newId()
  const relations = relationsToUser(ctx.principal, newUserId)
  expectMay(fields.role === 'admin' ? 'user.create_admin' : 'user.create', { relations })
  const replay = await findReplay(ctx)
  if (replay !== null) return replay
  await expectTimeZone(ctx, fields.timeZone)
  const user = { ...fields, passwordHash: await passwords.hash(password) }
  return idempotent(
    ctx,
    async (tx, id) => {
      const { view } = await pipeline(tx.db, {
        // Otherwise the next account to register would count as the first and become an administrator.
        installation: () => claimInstallation(tx),
        user: () => insertUser(tx, id, user),
        audit: () => recordAudit(tx, 'user.created', { userId: id }),
        view: () => viewUser(tx, id),
      })
      return view
    },
    newUserId,
  )
}

/** What changing each field requires, in addition to `user.change`. */
const permissionsOfFields: Readonly<Record<keyof UserFields, Permission>> = {
  username: 'user.change',
  email: 'user.change_email',
  display_name: 'user.change',
  role: 'user.change_role',
  time_zone: 'user.change',
  is_disabled: 'user.disable',
  attachment_quota_bytes: 'user.set_quota',
  task_quota: 'user.set_quota',
}

const fieldNames = Object.keys(permissionsOfFields) as readonly (keyof UserFields)[]

type ChangedFields = ReadonlySet<keyof UserFields>

const changedIn = (user: UserFacts, change: UserChange): ChangedFields =>
  new Set(fieldNames.filter((name) => change[name] !== undefined && change[name] !== user[name]))

/**
 * The user, if the caller may change all of these fields.
 *
 * @throws Problem 403
 */
const expectMayChange = (user: UserFacts, changed: ChangedFields): ChangeableUser => {
  const changeable = expectMay('user.change', user)
  for (const name of changed) expectMay(permissionsOfFields[name], user)
  return changeable
}

/** The events of a change in the audit trail. */
const auditedActions = (changed: ChangedFields, { is_disabled }: UserChange): readonly AuditAction[] => [
  ...(changed.has('email') ? ['user.email_changed' as const] : []),
  ...(changed.has('role') ? ['user.role_changed' as const] : []),
  ...(changed.has('is_disabled')
    ? [is_disabled ? ('user.disabled' as const) : ('user.enabled' as const)]
    : []),
  ...(changed.has('attachment_quota_bytes') || changed.has('task_quota')
    ? ['user.quota_changed' as const]
    : []),
]

/** A change of a user. */
interface UserUpdate {
  readonly id: string
  readonly change: UserChange
  /** The hash of a token that undoes a change of address; stored when users change their own. */
  readonly undoHash: Buffer
}

/** A user after a change. */
interface ChangedUser extends UserRow {
  /** The address before the change; null if it has not changed. */
  readonly previousEmail: string | null
}

/** Changes a user. */
export const updateUser = async (
  ctx: OpContext<Principal>,
  { id, change, undoHash }: UserUpdate,
): Promise<ChangedUser> => {
  const { username, email, time_zone } = change
  if (time_zone !== undefined) await expectTimeZone(ctx, time_zone)
  const isRenamed = [username, email, time_zone].some((value) => value !== undefined)
  const lock = {
    purpose: isRenamed ? 'rename' : 'change',
    removesAdministrator: mayRemoveAdministrator(change),
  } as const
  return transaction(ctx, async (tx) => {
    const user = expectSeen('user.see', await lockUser(tx, id, lock))
    const after = { ...user, ...change }
    const changed = changedIn(user, change)
    const changeable = expectMayChange(user, changed)
    if (changed.has('email')) expectProven(user)
    expectMatch(tx, user)
    if (leavesNoAdministrator(user, after)) throw problems.lastAdmin()
    const isOwn = id === tx.principal.userId
    const now = new Date()
    if (changed.has('email') && isOwn && (await hasChangedEmailOften(tx, changeable)))
      throw problems.emailChangedOften()

    if (changed.size > 0)
      await pipeline(tx.db, {
        fields: () => updateFields(tx, changeable, change),
        address: () => changed.has('email') && leaveAddress(tx, changeable, isOwn ? undoHash : null),
        access: () => changed.has('is_disabled') && after.is_disabled && endAccess(tx, id),
        digest: () => changed.has('time_zone') && rescheduleDigest(tx, id, after.time_zone, now),
        reminders: () => changed.has('time_zone') && moveRemindersOfUser(tx, id, now),
        audits: () =>
          pipelineEach(tx.db, auditedActions(changed, change), (action) =>
            recordAudit(tx, action, { userId: id }),
          ),
      })
    const previousEmail = changed.has('email') ? user.email : null
    return last(viewUser(tx, id).then((row) => ({ ...row, previousEmail })))
  })
}

/**
 * Deletes a user with their tasks, tags and sessions. They disappear for all readers immediately, and the username and address become
 * free. The dependent rows are deleted in batches (`purge.ts`), the files through the queue.
 */
const deleteUser = (ctx: OpContext<Principal>, id: string): Promise<void> =>
  transaction(ctx, async (tx) => {
    const user = expectSeen(
      'user.see',
      await lockUser(tx, id, { purpose: 'rename', removesAdministrator: true }),
    )
    const deletable = expectMay('user.delete', user)
    expectProven(user)
    expectMatch(tx, user)
    if (leavesNoAdministrator(user, null)) throw problems.lastAdmin()
    await pipeline(tx.db, {
      user: () => hideUser(tx, deletable),
      credentials: () => removeCredentials(tx, id),
      audit: () => recordAudit(tx, 'user.deleted', { userId: id }),
    })
    await endAccessOfUser(tx, id)
  })

/** A restored address, and a token to set a new password with its lifetime in seconds. */
interface RestoredAddress {
  readonly email: string
  readonly resetToken: string
  readonly resetTokenLifetime: number
}

interface PersonalUpdate {
  readonly userId: string
  readonly change: UserChange
  /** If set, renews the authentication of the caller's session first. */
  readonly currentPassword: string | undefined
}

export interface Users {
  create(ctx: OpContext<Principal>, user: UserCreation): Promise<Created>
  /** Changes a user. A change of the email address is announced to the old one; if users change their own, with an undo link. */
  update(ctx: OpContext<Principal>, update: PersonalUpdate): Promise<UserRow>
  remove(ctx: OpContext<Principal>, userId: string): Promise<void>
  /**
   * What a user uses of each resource with a quota, as JSON text.
   *
   * @throws Problem 403, 404
   */
  getUsage(ctx: OpContext<Principal>, userId: string): Promise<string>
  /**
   * Restores an address. Because the person who changed it could sign in, this also ends the user's sessions, revokes their API tokens,
   * invalidates the password and unlinks identities that were linked shortly before or since.
   *
   * @throws Problem 401 for an invalid token
   */
  undoEmailChange(ctx: OpContext, token: string): Promise<RestoredAddress>
}

interface Deps {
  readonly passwords: PasswordHasher
  readonly reauthenticate: Reauthenticate
  readonly credentials: Credentials
  readonly mailer: Mailer
  readonly jobs: Jobs
  /** The quotas of the installation. */
  readonly quotas: Quotas
  readonly log: { warn(fields: object, message: string): void }
}

export const createUsers = ({
  passwords,
  reauthenticate,
  credentials,
  mailer,
  jobs,
  quotas,
  log,
}: Deps): Users => ({
  create: (ctx, user) => createUser(ctx, user, passwords),

  async update(ctx, { userId, change, currentPassword }) {
    if (currentPassword !== undefined) {
      if (!isSessionContext(ctx)) throw problems.insufficientScope('session')
      await reauthenticate.byPassword(ctx, { password: currentPassword, pointer: '/current_password' })
    }
    const { token, hash: undoHash } = newUndoToken()
    const user = await thenForget(updateUser(ctx, { id: userId, change, undoHash }), () =>
      credentials.forgetUser(userId),
    )
    if (user.previousEmail !== null) {
      const isOwn = userId === ctx.principal.userId
      mailer.sendEmailChanged({ to: user.previousEmail, undoToken: isOwn ? token : null })
    }
    return user
  },

  async remove(ctx, userId) {
    await thenForget(deleteUser(ctx, userId), () => credentials.forgetUser(userId))
    await purgeUserOnce(ctx.db, userId)
    jobs.wake('purge_deleted_rows')
  },

  async getUsage(ctx, userId) {
    const { json } = expectFound(await selectUserUsage(ctx, userId, quotas))
    if (json === null) throw problems.forbidden()
    return json
  },

  async undoEmailChange(ctx, token) {
    const hash = hashUndoToken(token)
    const userId = hash && (await findUserOfToken(ctx, { purpose: 'undo_email', hash }))
    if (hash === null || userId === null) throw problems.invalidUndoToken()
    const { token: resetToken, hash: resetHash } = newResetToken()
    const { email, issuers } = await thenForget(
      transaction(ctx, async (tx) => {
        const undone = await takeUndoToken(tx, { userId, hash })
        if (undone === null) throw problems.invalidUndoToken()
        const reset = { purpose: 'reset_password', userId, lifetime: resetTokenLifetime } as const
        const { issuers } = await pipeline(tx.db, {
          address: () => restoreAddress(tx, undone, passwords.unmatchable),
          access: () => endAccess(tx, userId),
          issuers: () => removeIdentitiesSince(tx, { userId, since: undone.changedAt }),
          apiTokens: () => revokeApiTokens(tx, userId),
          feeds: () => revokeFeeds(tx, userId),
          // After the others were voided.
          token: () => insertOneTimeToken(tx, { ...reset, hash: resetHash }),
          audit: () => recordAudit(tx, 'user.email_change_undone', { userId, actorId: userId }),
        })
        await pipelineEach(tx.db, issuers, () =>
          recordAudit(tx, 'identity.unlinked', { userId, actorId: userId }),
        )
        return { email: undone.email, issuers }
      }),
      () => credentials.forgetUser(userId),
    )
    await leaveRuledTeams(ctx, { userId, issuers }, log)
    return { email, resetToken, resetTokenLifetime }
  },
})

const isSessionContext = (ctx: OpContext<Principal>): ctx is OpContext<SessionPrincipal> =>
  isInSession(ctx.principal)
