import { isSeenBy } from '../access/permissions.ts'
import { builder } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { instantText } from '../statements/instant-text.ts'
import { presentFor } from '../shared/retention.ts'
import { statement } from '../statements/statement.ts'
import { aliasedTable, sql } from '../schema/drizzle.ts'
import { notificationSettings, projects, reminders, tasks, users } from '../schema/tables.ts'
import { touchedBeside } from '../shared/touch.ts'

/**
 * Firing of reminders. One statement finds those that are due, records each once, as a notification and an event, and makes them past: a
 * crash neither loses nor repeats one. Instances share the work, since each skips the rows that another has locked.
 */

const reminder = aliasedTable(reminders, 'reminder')
const task = aliasedTable(tasks, 'task')
const person = aliasedTable(users, 'person')
const settings = aliasedTable(notificationSettings, 'settings')

/** Reminders per statement, which holds their rows until all are fired. */
const batchSize = 50

/** A reminder that is later, after a long stop of the service, is only a notification. */
const maxLate = sql.raw(`interval '24 hours'`)

// Reminders in a project that an import fills wait until their user sees it. Locks what the notifications refer to as well, or leaves the
// reminder for the next run: a deletion locks the task before its reminders.
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
      where ${reminder.fires_at} <= now() and ${reminder.fires_at} <= ${presentFor(reminder.updated_at)}
        and not exists (
          select from projects where ${projects.id} = ${task.project_id} and ${projects.filling_import_id} is not null)
      order by ${reminder.fires_at}, ${reminder.id} limit ${sql.raw(String(batchSize))}
      for no key update of reminder skip locked for key share of task, person skip locked
    ), recorded as materialized (
      select due.*, case when late <= ${maxLate}
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
        is_mail_due: sql`due.is_wanted and due.late <= ${maxLate} and exists (
          select from notification_settings settings where ${settings.user_id} = due.user_id and ${settings.mail_reminders})`,
        ...touchedBeside(reminder),
      })
      .from(sql`due`)
      .where(sql`${reminder.id} = due.id`)}
    select count(*) as due from due`,
)

/**
 * Fires reminders that are due, oldest first, until none is left. Those whose user cannot see the task any more or was disabled, and
 * those of closed tasks, become past without a record. A jump of the database's clock that nobody has confirmed holds those that were
 * written before it.
 */
export const fireDueReminders = async (db: Database, stop: AbortSignal): Promise<void> => {
  while (!stop.aborted) {
    const [row] = await fire(db, {})
    if ((row?.due ?? 0) < batchSize) break
  }
}

/** Reminders of a user that have fired since the last email. */
export interface ReminderMail {
  /** Null if there is nothing to send. */
  readonly email: string | null
  /** The most recent reminders. */
  readonly lines: readonly ReminderLine[]
  /** The number of all of them. */
  readonly count: number
}

interface ReminderLine {
  readonly taskTitle: string
  /** The due date of the task: a time or a day. Null for none. */
  readonly due: string | null
  /** That of the user. */
  readonly timeZone: string
}

const maxLines = 50

/** The shortest time between two emails to a user: what fires in between comes together. An address can be somebody else's. */
const pause = sql.raw(`interval '10 minutes'`)

const claim = statement(
  'due_reminders.claim_mail',
  {},
  { email: 'text?', count: 'int', task_title: 'text?', due: 'text?', time_zone: 'text?' },
  () => sql`
    with waiting as materialized (
      select ${reminder.user_id}, min(${reminder.fired_at}) as since from reminders reminder where ${reminder.is_mail_due}
      group by ${reminder.user_id}
    ), chosen as materialized (
      select settings.* from waiting join notification_settings settings on ${settings.user_id} = waiting.user_id
      where ${settings.reminders_mailed_at} between now() - ${pause} and now() is not true
      order by waiting.since limit 1 for no key update of settings skip locked
    ), stamped as ${builder
      .update(settings)
      .set({ reminders_mailed_at: sql`now()` })
      .from(sql`chosen`)
      .where(sql`${settings.user_id} = chosen.user_id`)},
    marked as ${builder
      .update(reminder)
      .set({ is_mail_due: sql`false` })
      .from(sql`chosen`)
      .where(sql`${reminder.user_id} = chosen.user_id and ${reminder.is_mail_due}`)
      .returning({ task_id: reminder.task_id, fired_at: reminder.fired_at })},
    sent as materialized (
      select ${person.email}, ${person.time_zone}, ${task.title}, marked.fired_at,
        coalesce(${instantText(task.due_at)}, ${task.due_on}::text) as due
      from chosen join users person on ${person.id} = chosen.user_id
        join marked on true join tasks task on ${task.id} = marked.task_id
      where chosen.mail_reminders and ${person.deleted_at} is null and not ${person.is_disabled}
        and marked.fired_at > now() - ${maxLate} and ${task.status} in ('todo', 'in_progress') and ${isSeenBy(person, task)}
    )
    select sent.email, (select count(*)::int from sent) as count, sent.title as task_title, sent.due, sent.time_zone
    from chosen left join sent on true order by sent.fired_at desc limit ${sql.raw(String(maxLines))}`,
)

/**
 * Claims the reminders of the user whose email has waited for longest; null if none does. Claiming marks them as sent, so that no other
 * process sends them too. Left out is what is out of date: of closed tasks, and from more than a day ago.
 */
export const claimReminderMail = async (db: Database): Promise<ReminderMail | null> => {
  const rows = await claim(db, {})
  const [first] = rows
  if (first === undefined) return null
  return {
    email: first.email,
    count: first.count,
    lines: rows.flatMap(({ task_title: taskTitle, due, time_zone: timeZone }) =>
      taskTitle === null || timeZone === null ? [] : [{ taskTitle, due, timeZone }],
    ),
  }
}
