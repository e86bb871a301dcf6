import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { quoteETag } from '../contract/operation.ts'
import { type NotificationSettingsRow, selectNotificationSettings } from '../db/notification-settings.ts'
import { selectNotifications } from '../db/notifications.ts'
import { selectTaskFollowers } from '../db/task-followers.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectScopes } from '../problems/problems.ts'
import {
  markNotificationsRead,
  updateNotification,
  updateNotificationSettings,
} from '../services/notifications.ts'
import { followTask, unfollowTask } from '../services/task-followers.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

type Schemas = components['schemas']

/** The operations of the contract's tag `notifications`. */
export const notificationHandlers = ({ paging }: Deps) =>
  ({
    async listTaskFollowers(ctx, { path, params, query }) {
      expectScopes(scopesOfExpansions(query.expand ?? []), ctx.principal)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(expectDone(await selectTaskFollowers(ctx, params.task_id, filter, request)))
    },

    async followTask(ctx, { params }) {
      await followTask(ctx, params.task_id)
      return { status: 204 }
    },

    async unfollowTask(ctx, { params }) {
      await unfollowTask(ctx, params.task_id)
      return { status: 204 }
    },

    async listNotifications(ctx, { path, query }) {
      expectScopes(scopesOfExpansions(query.expand ?? []), ctx.principal)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectNotifications(ctx, filter, request))
    },

    async updateNotification(ctx, { params, body }) {
      const { json } = await updateNotification(ctx, params.notification_id, body)
      return { status: 200, body: jsonText<Schemas['Notification']>(json) }
    },

    async markNotificationsRead(ctx, { body }) {
      return { status: 200, body: await markNotificationsRead(ctx, body.until) }
    },

    async getNotificationSettings(ctx) {
      return settingsResponse(expectDone(await selectNotificationSettings(ctx)))
    },

    async updateNotificationSettings(ctx, { body }) {
      return settingsResponse(await updateNotificationSettings(ctx, body))
    },
  }) satisfies Partial<Handlers>

const settingsResponse = ({ json, version }: NotificationSettingsRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(version) },
  body: jsonText<Schemas['NotificationSettings']>(json),
})
