import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, type Input, quoteETag } from '../contract/operation.ts'
import { type Quotas, selectUserUsage } from '../db/quotas.ts'
import { selectTasks } from '../db/task-list.ts'
import { selectUser, selectUsers, type UserRow } from '../db/users.ts'
import { variantTag } from '../domain/entity-tags.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import type { Principal } from '../domain/permissions.ts'
import { taskList } from '../domain/task-filter.ts'
import { defaultTimeZone } from '../domain/time-zones.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectScopes, problems } from '../problems/problems.ts'
import { type OpContext, withVersion } from '../services/context.ts'
import type { Users } from '../services/users.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly quotas: Quotas
  readonly users: Users
}

type User = components['schemas']['User']

/** The operations of the contract's tag `users`. */
export const userHandlers = ({ paging, quotas, users }: Deps) => {
  const changeUser = async (
    ctx: OpContext<Principal>,
    { params, body }: Input<'replaceUser'> | Input<'updateUser'>,
  ) => {
    const { current_password: currentPassword, ...change } = body
    return userResponse(await users.update(ctx, { userId: params.user_id, change, currentPassword }))
  }

  return {
    async listUsers(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectUsers(ctx, filter, request))
    },

    async createUser(ctx, { body }) {
      const { username, email, password, display_name: displayName = username, role = 'member' } = body
      const { time_zone: timeZone = defaultTimeZone } = body
      const user = await users.create(ctx, { username, email, displayName, role, timeZone, password })
      return created<User>(`/users/${user.id}`, quoteETag(1), user)
    },

    async getUser(ctx, { params }) {
      return userResponse(expectDone(await selectUser(ctx, params.user_id)))
    },

    async replaceUser(ctx, { body: { version, ...body }, ...input }) {
      return changeUser(withVersion(ctx, version), { ...input, body })
    },

    updateUser: changeUser,

    async deleteUser(ctx, { params }) {
      await users.remove(ctx, params.user_id)
      return { status: 204 }
    },

    async getUserUsage(ctx, { params }) {
      const { json } = expectDone(await selectUserUsage(ctx, params.user_id, quotas))
      return { status: 200, body: jsonText<components['schemas']['UserUsage']>(json) }
    },

    async listUserTasks(ctx, { path, params, query }) {
      const { principal } = ctx
      const { filter, asOf, request, respond } = paging(path, principal, query)
      const list = taskList(filter, { now: asOf, ...principal }, { userId: params.user_id })
      if (list === null) throw problems.sortedTwice()
      expectScopes(scopesOfExpansions(list.expand), principal)
      expectDone(await selectUser(ctx, params.user_id))
      return respond(await selectTasks(ctx.db, principal, list, request))
    },

    async getCurrentUser(ctx) {
      const user = await selectUser(ctx, ctx.principal.userId)
      // The user was deleted after authentication, or while a credential cache still had them.
      if (user.outcome === 'missing') throw problems.invalidToken()
      return userResponse(expectDone(user))
    },
  } satisfies Partial<Handlers>
}

/** The ETag includes whether the caller sees the email address and the quotas, since the representation differs then. */
const userResponse = ({ json, version, shows_private }: UserRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(shows_private ? version : variantTag(version, 'public')) },
  body: jsonText<User>(json),
})
