import type { components } from '../../generated/openapi.ts'
import { last } from '../db/engine/transaction.ts'
import {
  chooseDigest,
  lockNotificationSettings,
  type NotificationSettingsRow,
  viewNotificationSettings,
} from '../db/notification-settings.ts'
import {
  lockNotification,
  type MarkedNotifications,
  markRead,
  setNotificationRead,
  viewNotification,
} from '../db/notifications.ts'
import type { Principal } from '../domain/permissions.ts'
import { type OpContext, transaction } from './context.ts'
import { expectMatch, expectUntagged, expectMay, expectSeen } from './expectations.ts'

type Schemas = components['schemas']

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
  { mail_digest }: Schemas['NotificationSettingsPatch'],
): Promise<NotificationSettingsRow> =>
  transaction(ctx, async (tx) => {
    const settings = await lockNotificationSettings(tx)
    expectMatch(tx, settings)
    if (mail_digest !== undefined && mail_digest !== settings.mail_digest)
      await chooseDigest(tx, settings, mail_digest)
    return last(viewNotificationSettings(tx))
  })
