import { type MailDigest, nextDigestAt } from '../../domain/activity/digests.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { allowsNotification } from '../access/permissions.ts'
import type { Database } from '../engine/client.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { CallerGone } from '../engine/errors.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { isNotificationReason, type NotificationReason } from './notifications.ts'
import { notificationSettingsJson } from '../shared/read-models.ts'
import { instantText } from '../statements/instant-text.ts'
import { isSignInDue } from '../shared/recent.ts'
import { aliasedTable, and, eq, isNull, sql } from '../schema/drizzle.ts'
import { notifications, notificationSettings, tasks, users } from '../schema/tables.ts'
import { lockToChange } from '../accounts/users.ts'

/** The notification settings of users, and the email digests. Reminders are no part of a digest, which would come too late for them. */

const settings = aliasedTable(notificationSettings, 'settings')
const due = aliasedTable(notificationSettings, 'due')
const person = aliasedTable(users, 'person')
const notification = aliasedTable(notifications, 'notification')
const line = aliasedTable(notifications, 'line')

/** Notification settings as JSON text, and their version. */
export interface NotificationSettingsRow {
  readonly json: string
  readonly version: number
}

/** The version of settings that were never changed, which have no row. */
const unchanged = 1

const version = sql`coalesce(${settings.version}, ${sql.raw(String(unchanged))})`

const select = query(
  'notification_settings.select',
  {},
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${notificationSettingsJson(settings)} as json, ${version} as version
    from (values (true)) caller left join notification_settings settings on ${settings.user_id} = ${p.caller}`,
)

/** The caller's settings. */
export const selectNotificationSettings = async (
  ctx: StatementContext<Principal>,
): Promise<NotificationSettingsRow | null> => firstRow(await select(ctx, {}))

/** What a user chooses. */
export interface ChosenSettings {
  readonly mail_digest: MailDigest
  readonly mail_reminders: boolean
}

/** What a change of notification settings depends on. */
export interface SettingsFacts extends ChosenSettings {
  readonly version: number
  /** The time zone of the user. */
  readonly time_zone: string
}

const selectFacts = builtStatement('notification_settings.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({
      mail_digest: notificationSettings.mail_digest,
      mail_reminders: notificationSettings.mail_reminders,
      version: notificationSettings.version,
      time_zone: users.time_zone,
    })
    .from(users)
    .leftJoin(notificationSettings, eq(notificationSettings.user_id, users.id))
    .where(and(eq(users.id, p.id), isNull(users.deleted_at), eq(users.is_disabled, false))),
)

const digests: readonly MailDigest[] = ['off', 'hourly', 'daily']

const readDigest = (text: string | null): MailDigest => digests.find((one) => one === text) ?? 'off'

/**
 * Locks the caller, whose time zone decides when a digest is due, and reads their settings under the lock.
 *
 * @throws CallerGone when the caller was disabled or deleted since they were authenticated
 */
export const lockNotificationSettings = async ({
  db,
  principal,
}: TransactionContext<Principal>): Promise<SettingsFacts> => {
  const id = principal.userId
  const { facts } = await pipeline(db, {
    lock: () => lockToChange(db, { id }),
    facts: () => selectFacts(db, { id }),
  })
  const [row] = facts
  if (row === undefined) throw new CallerGone()
  const { mail_digest, mail_reminders, version, time_zone } = row
  return {
    mail_digest: readDigest(mail_digest),
    mail_reminders: mail_reminders ?? false,
    version: version ?? unchanged,
    time_zone,
  }
}

const choose = builtStatement(
  'notification_settings.choose',
  {
    user_id: 'uuid',
    mail_digest: 'text',
    mail_reminders: 'bool',
    digest_due_at: 'instant?',
    version: 'int',
    restarts: 'bool',
    reschedules: 'bool',
  },
  (db, p) => {
    const chosen = {
      mail_digest: p.mail_digest,
      mail_reminders: p.mail_reminders,
      version: p.version,
    }
    const { digested_until, digest_due_at } = notificationSettings
    return db
      .insert(notificationSettings)
      .values({ user_id: p.user_id, digest_due_at: p.digest_due_at, ...chosen })
      .onConflictDoUpdate({
        target: notificationSettings.user_id,
        set: {
          ...chosen,
          digest_due_at: sql`case when ${p.reschedules} then ${p.digest_due_at} else ${digest_due_at} end`,
          digested_until: sql`case when ${p.restarts} then now() else ${digested_until} end`,
        },
      })
  },
)

/** Chooses what the caller gets by email. The first digest has what follows. */
export const chooseSettings = async (
  { db, principal }: TransactionContext<Principal>,
  { mail_digest: before, version, time_zone }: SettingsFacts,
  chosen: ChosenSettings,
  now: Date,
): Promise<void> => {
  await choose(db, {
    ...chosen,
    user_id: principal.userId,
    digest_due_at: nextDigestAt(chosen.mail_digest, time_zone, now),
    version: version + 1,
    restarts: before === 'off' && chosen.mail_digest !== 'off',
    reschedules: chosen.mail_digest !== before,
  })
}

/** The settings that the transaction has written. */
export const viewNotificationSettings = async (
  tx: TransactionContext<Principal>,
): Promise<NotificationSettingsRow> => expectRow(await select(tx, {}))

const reschedule = builtStatement(
  'notification_settings.reschedule',
  { user_id: 'uuid', digest_due_at: 'instant?' },
  (db, p) =>
    db
      .update(notificationSettings)
      .set({ digest_due_at: p.digest_due_at })
      .where(and(eq(notificationSettings.user_id, p.user_id), eq(notificationSettings.mail_digest, 'daily'))),
)

/** Moves the daily digest of a user, who is locked, to the morning of another time zone. */
export const rescheduleDigest = async (
  { db }: TransactionContext,
  userId: string,
  timeZone: string,
  now: Date,
): Promise<void> => {
  await reschedule(db, { user_id: userId, digest_due_at: nextDigestAt('daily', timeZone, now) })
}

/** A notification in a digest. */
export interface DigestLine {
  readonly reason: NotificationReason
  readonly taskTitle: string
  /** Null for the service itself or a deleted user. */
  readonly actorName: string | null
}

/** The unread notifications of a user since the last digest. */
export interface NotificationDigest {
  readonly email: string
  /** The most recent notifications, newest first. */
  readonly lines: readonly DigestLine[]
  /** The number of notifications, up to `maxCounted`. */
  readonly count: number
}

const maxLines = 50

/** Maximum number of notifications that a digest considers, newest first: about 20 ms. */
const maxCounted = 1_000

const isDue = sql`${settings.digest_due_at} <= now() and ${person.deleted_at} is null and not ${person.is_disabled}
  and not ${isSignInDue(person)}`

const selectDue = statement(
  'notification_settings.select_due',
  {},
  { user_id: 'text', mail_digest: 'text', time_zone: 'text', now: 'text' },
  () => sql`
    select ${settings.user_id}::text, ${settings.mail_digest}, ${person.time_zone}, ${instantText(sql`now()`)} as now
    from notification_settings settings join users person on ${person.id} = ${settings.user_id}
    where ${isDue} order by ${settings.digest_due_at} limit 1`,
)

// Finds nothing if another process has claimed the digest, or the user has changed what it depends on.
const claim = statement(
  'notification_settings.claim_digest',
  { user_id: 'uuid', mail_digest: 'text', time_zone: 'text', next_due_at: 'instant?' },
  { email: 'text', count: 'int', reason: 'text?', task_title: 'text?', actor_name: 'text?' },
  (p) => {
    const { user_id, created_at, id, read_at, reason } = notification
    const caller = { caller: sql`${due.user_id}`, is_admin: sql`${due}.is_admin`, in_session: sql`false` }
    const newest = sql`order by ${created_at} desc, ${id} desc`
    const latest = sql`(select ${created_at} from notifications notification where ${user_id} = ${due.user_id} ${newest} limit 1)`
    return sql`
      with due as materialized (
        select settings.*, ${person.email}, ${person.role} = 'admin' as is_admin
        from notification_settings settings join users person on ${person.id} = ${settings.user_id}
        where ${settings.user_id} = ${p.user_id} and ${settings.mail_digest} = ${p.mail_digest}
          and ${person.time_zone} = ${p.time_zone} and ${isDue}
        for no key update of settings
      ), moved as ${builder
        .update(settings)
        .set({
          digest_due_at: sql`${p.next_due_at}`,
          digested_until: sql`greatest(${latest}, ${due.digested_until})`,
        })
        .from(sql`due`)
        .where(sql`${settings.user_id} = ${due.user_id}`)}, unread as materialized (
        select notification.* from due cross join lateral (
          select * from notifications notification
          where ${user_id} = ${due.user_id} and ${read_at} is null and ${created_at} > ${due.digested_until}
            and ${reason} not in ('reminder', 'reminder_limit', 'export', 'import')
          ${newest} limit ${sql.raw(String(maxCounted))}
        ) notification where ${allowsNotification('notification.see', caller, notification)}
      )
      select ${due}.email, (select count(*)::int from unread) as count, ${line.reason},
        (select ${tasks.title} from tasks where ${tasks.id} = ${line.task_id}) as task_title,
        (select ${users.display_name} from users where ${users.id} = ${line.actor_id} and ${users.deleted_at} is null) as actor_name
      from due left join (
        select * from unread notification ${newest} limit ${sql.raw(String(maxLines))}
      ) line on true
      order by ${line.created_at} desc, ${line.id} desc`
  },
)

/**
 * Moves times that are further ahead than the service sets them, after the clock was set back, to the latest that it sets now.
 * Notifications of a digest that was sent are moved with its end, so that the next digest has those that follow, and no others.
 */
export const correctDigestTimes = statement('notification_settings.correct_times', {}, {}, () => {
  const latest = sql`now() + case ${settings.mail_digest} when 'hourly' then interval '1 hour' else interval '25 hours' end`
  const isDueTooLate = sql`${settings.digest_due_at} > ${latest}`
  const isDigestedAhead = sql`${settings.digested_until} > now()`
  return sql`
    with corrected as ${builder
      .update(settings)
      .set({
        digest_due_at: sql`case when ${isDueTooLate} then ${latest} else ${settings.digest_due_at} end`,
        digested_until: sql`least(${settings.digested_until}, now())`,
      })
      .where(sql`${isDueTooLate} or ${isDigestedAhead}`)}
    update notifications notification set created_at = now() from notification_settings settings
    where ${isDigestedAhead} and ${notification.user_id} = ${settings.user_id} and ${notification.created_at} > now()
      and ${notification.created_at} <= ${settings.digested_until}`
})

/**
 * Claims the digest that has been due for longest: without lines if there are no notifications, and null if none is due. Digests of
 * disabled users wait. Claiming schedules the user's next digest, so that no other process sends this one too. If the process is
 * killed before it sends the email, the digest is lost; the notifications stay in the inbox.
 */
export const claimDigest = async (db: Database): Promise<NotificationDigest | null> => {
  const found = firstRow(await selectDue(db, {}))
  if (found === null) return null
  const { user_id, time_zone } = found
  const mail_digest = readDigest(found.mail_digest)
  const next_due_at = nextDigestAt(mail_digest, time_zone, new Date(found.now))
  const rows = await claim(db, { user_id, mail_digest, time_zone, next_due_at })
  const [first] = rows
  if (first === undefined) return claimDigest(db)
  return {
    email: first.email,
    count: first.count,
    lines: rows.flatMap(({ reason, task_title: taskTitle, actor_name: actorName }) =>
      isNotificationReason(reason) && taskTitle !== null ? [{ reason, taskTitle, actorName }] : [],
    ),
  }
}
