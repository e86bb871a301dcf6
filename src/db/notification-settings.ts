import type { components } from '../../generated/openapi.ts'
import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { allowsNotification } from './access/permissions.ts'
import type { Database } from './engine/client.ts'
import type { OpContext } from './engine/context.ts'
import { checkedOutcome, outcomeOfUpsert, readOutcome, stillMeetsConditions } from './engine/outcome.ts'
import { query, statement } from './engine/statement.ts'
import { isNotificationReason, type NotificationReason } from './notifications.ts'
import { notificationSettingsJson } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** The notification settings of users, and the email digests. */

type Schemas = components['schemas']

const settings = sql.raw('settings')
const ofSettings = columnsOf<'notification_settings'>(settings)

/** Notification settings as JSON text, and their version. */
export interface NotificationSettingsRow {
  readonly json: string
  readonly version: number
}

/** Settings that were never changed have no row, and version 1. */
const present = sql`(values (true)) caller left join notification_settings settings`
const version = sql`coalesce(${ofSettings.version}, 1)`

const select = query(
  'notification_settings.select',
  {},
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${notificationSettingsJson(settings)} as json, ${version} as version
    from ${present} on ${ofSettings.user_id} = ${p.caller}`,
)

/** The caller's settings. */
export const selectNotificationSettings = async (
  ctx: OpContext<Principal>,
): Promise<Outcome<NotificationSettingsRow>> => {
  const [row] = await select(ctx, {})
  return found(row)
}

const update = query(
  'notification_settings.update',
  { patch: 'json' },
  { outcome: 'text', json: 'text', version: 'int' },
  (p) => {
    const person = columnsOf<'users'>(sql`person`)
    const patched = (value: SQL): SQL => sql`coalesce(${p.patch} ->> 'mail_digest', ${value})`
    const dueAt = (digest: SQL): SQL =>
      sql`next_digest_at(${digest}, (select ${person.time_zone} from users person where ${person.id} = ${p.caller}))`
    const chosen = sql`checked.mail_digest`
    const { columns, values } = insertion<'notification_settings'>({
      user_id: p.caller,
      mail_digest: chosen,
      digest_due_at: dueAt(chosen),
      version: sql`case when ${chosen} = 'off' then 1 else 2 end`,
    })
    const replaced = patched(ofSettings.mail_digest)
    const storedTag = sql`${ofSettings.version}::text`
    const changes = assignments<'notification_settings'>({
      mail_digest: replaced,
      digest_due_at: sql`case when ${replaced} = ${ofSettings.mail_digest} then ${ofSettings.digest_due_at} else ${dueAt(replaced)} end`,
      digested_until: sql`case when ${ofSettings.mail_digest} = 'off' then now() else ${ofSettings.digested_until} end`,
    })
    return sql`
      with checked as (
        select ${checkedOutcome(p, { allowed: sql`true`, etag: sql`${version}::text` })} as outcome,
          ${patched(sql`coalesce(${ofSettings.mail_digest}, 'off')`)} as mail_digest
        from ${present} on ${ofSettings.user_id} = ${p.caller}
      ), settings as (
        insert into notification_settings as settings (${columns}) select ${values} from checked where outcome = 'done'
        on conflict (user_id) do update set ${changes}
          where ${stillMeetsConditions(p, storedTag)}
        returning *
      )
      select ${outcomeOfUpsert(sql`${ofSettings.user_id} is not null`)} as outcome,
        ${notificationSettingsJson(settings)} as json, ${version} as version
      from checked left join settings on true`
  },
)

/** Changes the caller's settings. */
export const updateNotificationSettings = async (
  ctx: OpContext<Principal>,
  patch: Schemas['NotificationSettingsPatch'],
): Promise<Outcome<NotificationSettingsRow>> => {
  const [row] = await update(ctx, { patch })
  return readOutcome(row)
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

const due = sql.raw('due')
const notification = sql.raw('notification')

const claim = statement(
  'notification_settings.claim_digest',
  {},
  { email: 'text', count: 'int', reason: 'text?', task_title: 'text?', actor_name: 'text?' },
  () => {
    const person = columnsOf<'users'>(sql`person`)
    const { user_id, created_at, id, read_at } = columnsOf<'notifications'>(notification)
    const dueSettings = columnsOf<'notification_settings'>(due)
    const line = columnsOf<'notifications'>(sql`line`)
    const caller = { caller: dueSettings.user_id, is_admin: sql`${due}.is_admin`, in_session: sql`false` }
    const newest = sql`order by ${created_at} desc, ${id} desc`
    const latest = sql`(select ${created_at} from notifications notification where ${user_id} = ${dueSettings.user_id} ${newest} limit 1)`
    return sql`
      with due as materialized (
        select settings.*, ${person.email}, ${person.time_zone}, ${person.role} = 'admin' as is_admin
        from notification_settings settings join users person on ${person.id} = ${ofSettings.user_id}
        where ${ofSettings.digest_due_at} <= now() and ${person.deleted_at} is null and not ${person.is_disabled}
        order by ${ofSettings.digest_due_at} limit 1 for no key update of settings skip locked
      ), moved as (
        update notification_settings settings set ${assignments<'notification_settings'>({
          digest_due_at: sql`next_digest_at(${dueSettings.mail_digest}, ${due}.time_zone)`,
          digested_until: sql`greatest(${latest}, ${dueSettings.digested_until})`,
        })} from due where ${ofSettings.user_id} = ${dueSettings.user_id}
      ), unread as materialized (
        select notification.* from due cross join lateral (
          select * from notifications notification
          where ${user_id} = ${dueSettings.user_id} and ${read_at} is null and ${created_at} > ${dueSettings.digested_until}
          ${newest} limit ${sql.raw(String(maxCounted))}
        ) notification where ${allowsNotification('notification.see', caller, notification)}
      )
      select ${due}.email, (select count(*)::int from unread) as count, ${line.reason},
        (select title from tasks where id = ${line.task_id}) as task_title,
        (select display_name from users where id = ${line.actor_id} and deleted_at is null) as actor_name
      from due left join (
        select * from unread notification ${newest} limit ${sql.raw(String(maxLines))}
      ) line on true
      order by ${line.created_at} desc, ${line.id} desc`
  },
)

const correct = statement('notification_settings.correct_times', {}, {}, () => {
  const { user_id, created_at } = columnsOf<'notifications'>(notification)
  const { id, time_zone } = columnsOf<'users'>(sql`person`)
  const latest = sql`now() + case ${ofSettings.mail_digest} when 'hourly' then interval '1 hour' else interval '25 hours' end`
  const isDueTooLate = sql`${ofSettings.digest_due_at} > ${latest}`
  const isDigestedAhead = sql`${ofSettings.digested_until} > now()`
  return sql`
    with corrected as (
      update notification_settings settings set ${assignments<'notification_settings'>({
        digest_due_at: sql`case when ${isDueTooLate} then next_digest_at(${ofSettings.mail_digest}, ${time_zone}) else ${ofSettings.digest_due_at} end`,
        digested_until: sql`least(${ofSettings.digested_until}, now())`,
      })} from users person where ${id} = ${ofSettings.user_id} and (${isDueTooLate} or ${isDigestedAhead})
    )
    update notifications notification set ${assignments<'notifications'>({ created_at: sql`now()` })}
    from notification_settings settings
    where ${isDigestedAhead} and ${user_id} = ${ofSettings.user_id} and ${created_at} > now() and ${created_at} <= ${ofSettings.digested_until}`
})

/**
 * Corrects times that are further ahead than the service sets them, after the clock was set back. Notifications of a digest that was
 * sent are moved with its end, so that the next digest has those that follow, and no others.
 */
export const correctDigestTimes = async (db: Database): Promise<void> => {
  await correct(db, {})
}

/**
 * Claims the digest that has been due for longest: without lines if there are no notifications, and null if none is due. Digests of
 * disabled users wait. Claiming schedules the user's next digest, so that no other process sends this one too. If the process is
 * killed before it sends the email, the digest is lost; the notifications stay in the inbox.
 */
export const claimDigest = async (db: Database): Promise<NotificationDigest | null> => {
  const rows = await claim(db, {})
  const [first] = rows
  if (first === undefined) return null
  return {
    email: first.email,
    count: first.count,
    lines: rows.flatMap(({ reason, task_title: taskTitle, actor_name: actorName }) =>
      isNotificationReason(reason) && taskTitle !== null ? [{ reason, taskTitle, actorName }] : [],
    ),
  }
}
