import type { components } from '../../../generated/openapi.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  chooseSettings,
  lockNotificationSettings,
  type NotificationSettingsRow,
  selectNotificationSettings,
  viewNotificationSettings,
} from '../../db/activity/notification-settings.ts'
import {
  lockNotification,
  type MarkedNotifications,
  markRead,
  type NotificationFilter,
  selectNotifications,
  setNotificationRead,
  viewNotification,
} from '../../db/activity/notifications.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import {
  expectFound,
  expectMatch,
  expectMay,
  expectMayExpand,
  expectSeen,
  expectUntagged,
} from '../shared/expectations.ts'

type Schemas = components['schemas']

/** A page of the caller's notifications. @throws Problem 403 */
export const listNotifications = async (
  ctx: OpContext<Principal>,
  filter: NotificationFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayExpand(ctx, filter)
  return selectNotifications(ctx, filter, page)
}

/** The caller's settings. */
export const getNotificationSettings = async (ctx: OpContext<Principal>): Promise<NotificationSettingsRow> =>
  expectFound(await selectNotificationSettings(ctx))

/** Marks a notification of the caller as read or unread. */
export const updateNotification = (
  ctx: OpContext<Principal>,
  id: string,
  { is_read }: Schemas['NotificationPatch'],
): Promise<{ readonly json: string }> =>
  transaction(ctx, async (tx) => {
    const seen = expectSeen('notification.see', await lockNotification(tx, id))
    const notification = expectMay('notification.change', seen)
    expectUntagged(tx)
    if (is_read !== undefined && is_read !== notification.is_read)
      await setNotificationRead(tx, notification, is_read)
    return last(viewNotification(tx, id))
  })

/** Marks the caller's notifications up to a time as read. */
export const markNotificationsRead = (
  ctx: OpContext<Principal>,
  until: string,
): Promise<MarkedNotifications> => transaction(ctx, (tx) => markRead(tx, until))

/** Changes the caller's settings. */
export const updateNotificationSettings = (
  ctx: OpContext<Principal>,
  patch: Schemas['NotificationSettingsPatch'],
): Promise<NotificationSettingsRow> =>
  transaction(ctx, async (tx) => {
    const settings = await lockNotificationSettings(tx)
    expectMatch(tx, settings)
    const { mail_digest = settings.mail_digest, mail_reminders = settings.mail_reminders } = patch
    if (mail_digest !== settings.mail_digest || mail_reminders !== settings.mail_reminders)
      await chooseSettings(tx, settings, { mail_digest, mail_reminders }, new Date())
    return last(viewNotificationSettings(tx))
  })
