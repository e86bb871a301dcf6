import { isSeenBy } from './access/permissions.ts'
import { builder } from './engine/built-statement.ts'
import type { Database } from './engine/client.ts'
import { instantText } from './engine/instant-text.ts'
import { retentionTime } from './engine/retention.ts'
import { firstRow } from './engine/row-statements.ts'
import { statement } from './engine/statement.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from './schema/drizzle.ts'
import { notificationSettings, reminders, tasks, users } from './schema/tables.ts'
import { touched } from './touch.ts'

/**
 * Firing of reminders. One statement finds those that are due, records each once, as a notification and an event, and makes them past: a
 * crash neither loses nor repeats one. Instances share the work, since each skips the rows that another has locked.
 */

const reminder = aliasedTable(reminders, 'reminder')
const task = aliasedTable(tasks, 'task')
const person = aliasedTable(users, 'person')
const settings = aliasedTable(notificationSettings, 'settings')

/** Reminders per statement: about 40 ms on the embedded database. */
const batchSize = 50

/** A reminder that is later, after a long stop of the service, is only a notification. */
const latest = sql.raw(`interval '24 hours'`)

// Locks what the notifications refer to as well, or leaves the reminder for the next run: a deletion locks the task before its reminders.
const fire = statement(
  'due_reminders.fire',
  {},
  { due: 'int8' },
  () => sql`
    with due as materialized (
      select reminder.*, ${task.project_id}, ${task.owner_id}, ${task.assignee_id},
        ${person.deleted_at} is null and not ${person.is_disabled} and ${task.status} in ('todo', 'in_progress')
          and ${isSeenBy(person, task)} as is_wanted,
        clock_timestamp() - ${reminder.fires_at} as late
      from reminders reminder join tasks task on ${task.id} = ${reminder.task_id}
        join users person on ${person.id} = ${reminder.user_id}
      where ${reminder.fires_at} <= ${retentionTime}
      order by ${reminder.fires_at}, ${reminder.id} limit ${sql.raw(String(batchSize))}
      for no key update of reminder skip locked for key share of task, person skip locked
    ), recorded as materialized (
      select due.*, case when late <= ${latest}
        then record_event_for(user_id, 'task.reminder', task_id, project_id, owner_id, assignee_id, id, '{}',
          jsonb_build_object('remind_at', ${instantText(sql`fires_at`)}))
        else event_id(clock_timestamp(), nextval('events_ordinal_seq')) end as event_id
      from due where is_wanted order by fires_at, id
    ), notified as (
      insert into notifications (id, user_id, reason, event_id, task_id, reminder_id, created_at)
      select event_id(clock_timestamp(), row_number() over ()), user_id, 'reminder', event_id, task_id, id, clock_timestamp()
      from recorded
    ), fired as ${builder
      .update(reminder)
      .set({
        fires_at: sql`null`,
        fired_at: sql`case when due.is_wanted then clock_timestamp() else ${reminder.fired_at} end`,
        late_seconds: sql`case when due.is_wanted then greatest(floor(extract(epoch from due.late)), 0)::int
          else ${reminder.late_seconds} end`,
        is_mail_due: sql`due.is_wanted and due.late <= ${latest} and exists (
          select from notification_settings settings where ${settings.user_id} = due.user_id and ${settings.mail_reminders})`,
        ...touched(reminder),
      })
      .from(sql`due`)
      .where(sql`${reminder.id} = due.id`)}
    select count(*) as due from due`,
)

/**
 * Fires reminders that are due, oldest first, until none is left. Those whose user cannot see the task any more or was disabled, and
 * those of closed tasks, become past without a record. Measured against the clock of retention, which a jump of the database's clock does
 * not move.
 */
export const fireDueReminders = async (db: Database, stop: AbortSignal): Promise<void> => {
  while (!stop.aborted) {
    const [row] = await fire(db, {})
    if ((row?.due ?? 0) < batchSize) break
  }
}

/** A reminder to send by email. */
export interface ReminderMail {
  readonly email: string
  readonly taskTitle: string
  /** The due date of the task, for people: a day, or a time in the time zone of the user. Null for none. */
  readonly due: string | null
}

const localTime = (time: SQLWrapper): SQL =>
  sql`to_char(${time} at time zone ${person.time_zone}, 'YYYY-MM-DD HH24:MI') || ' (' || ${person.time_zone} || ')'`

const claim = statement(
  'due_reminders.claim_mail',
  {},
  { email: 'text?', task_title: 'text', due: 'text?' },
  () => sql`
    with claimed as materialized (
      select reminder.* from reminders reminder where ${reminder.is_mail_due}
      order by ${reminder.fired_at} limit 1 for no key update skip locked
    ), marked as ${builder
      .update(reminder)
      .set({ is_mail_due: sql`false` })
      .from(sql`claimed`)
      .where(sql`${reminder.id} = claimed.id`)}
    select case when ${person.deleted_at} is null and not ${person.is_disabled} and ${isSeenBy(person, task)} then ${person.email} end as email,
      ${task.title} as task_title, coalesce(${localTime(task.due_at)}, ${task.due_on}::text) as due
    from claimed join tasks task on ${task.id} = claimed.task_id join users person on ${person.id} = claimed.user_id`,
)

/**
 * Claims the reminder whose email has waited for longest; null if none does, and without an address if its user may not get it any more.
 * Claiming marks it as sent, so that no other process sends it too.
 */
export const claimReminderMail = async (
  db: Database,
): Promise<(Omit<ReminderMail, 'email'> & { readonly email: string | null }) | null> => {
  const row = firstRow(await claim(db, {}))
  if (row === null) return null
  const { task_title: taskTitle, ...mail } = row
  return { ...mail, taskTitle }
}
