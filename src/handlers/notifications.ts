import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { ok } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import {
  getNotificationSettings,
  listNotifications,
  markNotificationsRead,
  updateNotification,
  updateNotificationSettings,
} from '../services/activity/notifications.ts'
import { followTask, listTaskFollowers, unfollowTask } from '../services/tasks/followers.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

type Notification = components['schemas']['Notification']
type Settings = components['schemas']['NotificationSettings']

/** The operations of the contract's tag `notifications`. */
export const notificationHandlers = ({ paging }: Deps) =>
  ({
    async listTaskFollowers(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTaskFollowers(ctx, params.task_id, filter, request))
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
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listNotifications(ctx, filter, request))
    },

    async updateNotification(ctx, { params, body }) {
      const { json } = await updateNotification(ctx, params.notification_id, body)
      return { status: 200, body: jsonText<Notification>(json) }
    },

    async markNotificationsRead(ctx, { body }) {
      return { status: 200, body: await markNotificationsRead(ctx, body.until) }
    },

    async getNotificationSettings(ctx) {
      return ok<Settings>(await getNotificationSettings(ctx))
    },

    async updateNotificationSettings(ctx, { body }) {
      return ok<Settings>(await updateNotificationSettings(ctx, body))
    },
  }) satisfies Partial<Handlers>
