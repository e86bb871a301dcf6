import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, type Input, quoteETag, shown } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'
import type { Principal } from '../domain/shared/permissions.ts'
import { defaultTimeZone } from '../domain/shared/time-zones.ts'
import type { Paging } from '../http/paging.ts'
import type { OpContext } from '../services/shared/context.ts'
import { listUserTasks } from '../services/tasks/lists.ts'
import { getCurrentUser, getUser, listUsers, type Users } from '../services/accounts/users.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly users: Users
}

type User = components['schemas']['User']

/** The operations of the contract's tag `users`. */
export const userHandlers = ({ paging, users }: Deps) => {
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
      return respond(await listUsers(ctx, filter, request))
    },

    async createUser(ctx, { body }) {
      const { username, email, password, display_name: displayName = username, role = 'member' } = body
      const { time_zone: timeZone = defaultTimeZone } = body
      const user = await users.create(ctx, { username, email, displayName, role, timeZone, password })
      return created<User>(`/users/${user.id}`, user, userETag)
    },

    async getUser(ctx, { params }) {
      return userResponse(await getUser(ctx, params.user_id))
    },

    replaceUser: changeUser,

    updateUser: changeUser,

    async deleteUser(ctx, { params }) {
      await users.remove(ctx, params.user_id)
      return { status: 204 }
    },

    async getUserUsage(ctx, { params }) {
      const json = await users.getUsage(ctx, params.user_id)
      return { status: 200, body: jsonText<components['schemas']['UserUsage']>(json) }
    },

    async listUserTasks(ctx, { path, params, query }) {
      const list = paging(path, ctx.principal, query)
      return list.respond(await listUserTasks(ctx, params.user_id, list))
    },

    async getCurrentUser(ctx) {
      return userResponse(await getCurrentUser(ctx))
    },
  } satisfies Partial<Handlers>
}

/** The ETag includes whether the caller sees the email address and the quotas, since the representation differs then. */
const userETag = ({ version, email }: User): string =>
  quoteETag(email === null ? variantTag(version, 'public') : version)

const userResponse = ({ json }: { readonly json: string }) => shown<User>(json, userETag)
