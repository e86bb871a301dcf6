import type { components } from '../../../generated/openapi.ts'
import type { NotificationExpansion } from '../../domain/shared/expansions.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { isListLive } from '../access/access-relations.ts'
import { allowsNotification, isSeenBy } from '../access/permissions.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, rowLock } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { retentionTime } from '../shared/retention.ts'
import { eventReader } from './event-readers.ts'
import { newest, selectPage } from '../lists/list.ts'
import { notificationJson } from '../shared/read-models.ts'
import { aliasedTable, eq, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import {
  comments,
  events,
  heldNotifications,
  notifications,
  taskFollowers,
  tasks,
  users,
} from '../schema/tables.ts'

/** The inbox of users, and the notifications about tasks that they follow, are assigned to or are mentioned in. */

const item = aliasedTable(notifications, 'item')
const event = aliasedTable(events, 'event')
const comment = aliasedTable(comments, 'comment')
const follower = aliasedTable(taskFollowers, 'follower')
const notification = aliasedTable(notifications, 'notification')
const recipient = aliasedTable(notifications, 'recipient')
const task = aliasedTable(tasks, 'task')
const held = aliasedTable(heldNotifications, 'held')
const person = aliasedTable(users, 'person')

/** Filters of the inbox. */
export interface NotificationFilter {
  readonly unread?: boolean
  readonly expand?: readonly NotificationExpansion[]
}

/** A page of the caller's notifications. */
export const selectNotifications = (
  { db, principal }: StatementContext<Principal>,
  { unread = false, expand = [] }: NotificationFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: ['notifications', ...expand].join('_'),
      table: notifications,
      branches: (caller) => onlyBranch(allowsNotification('notification.see', caller, item)),
      filters: unread ? [{ sql: sql`${item.read_at} is null`, values: {}, plansAlike: true }] : [],
      ...newest,
      json: (row, caller) => notificationJson(row, expand, caller),
    },
    principal,
    page,
  )

/** What a change of a notification depends on. */
export interface NotificationFacts {
  readonly id: string
  readonly is_read: boolean
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const lock = rowLock('notifications.lock', notifications, 'no key update')

const selectFacts = query(
  'notifications.select_facts',
  { id: 'uuid' },
  { is_read: 'bool' },
  (p) => sql`
    select ${notification.read_at} is not null as is_read from notifications notification
    where ${notification.id} = ${p.id} and ${allowsNotification('notification.see', p, notification)}`,
)

/** Locks a notification, and reads it under the lock, if the caller is its recipient and sees its task, if it has one. */
export const lockNotification = async (
  tx: TransactionContext<Principal>,
  id: string,
): Promise<NotificationFacts | null> => {
  const { facts } = await pipeline(tx.db, {
    lock: () => lock(tx.db, { id }),
    facts: () => selectFacts(tx, { id }),
  })
  const [row] = facts
  return row === undefined ? null : { ...row, id, relations: ['recipient'] }
}

const setRead = builtStatement('notifications.set_read', { id: 'uuid', is_read: 'bool' }, (db, p) =>
  db
    .update(notifications)
    .set({ read_at: sql`case when ${p.is_read} then now() end` })
    .where(eq(notifications.id, p.id)),
)

/** Marks a notification as read or unread. */
export const setNotificationRead = async (
  { db }: TransactionContext,
  { id }: Authorized<'notification.change', NotificationFacts>,
  isRead: boolean,
): Promise<void> => {
  await setRead(db, { id, is_read: isRead })
}

const reread = query(
  'notifications.reread',
  { id: 'uuid' },
  { json: 'text' },
  (p) => sql`
    select ${notificationJson(notification, [], p)} as json from notifications notification where ${notification.id} = ${p.id}`,
)

/** A notification that the transaction has locked. */
export const viewNotification = async (
  tx: TransactionContext<Principal>,
  id: string,
): Promise<{ readonly json: string }> => expectRow(await reread(tx, { id }))

/** Maximum number of notifications that one request marks as read: about 100 ms. */
const maxMarked = 5_000

const markUntil = query(
  'notifications.mark_read',
  { until: 'instant' },
  { marked: 'int', has_more: 'bool' },
  (p) => {
    const { id, user_id, created_at, read_at } = notification
    const limit = sql.raw(String(maxMarked))
    return sql`
    with unread as materialized (
      select ${id} from notifications notification
      where ${user_id} = ${p.caller} and ${read_at} is null and ${created_at} <= ${p.until}
        and ${allowsNotification('notification.change', p, notification)}
      order by ${created_at}, ${id} limit ${limit} + 1 for no key update
    ), marked as ${builder
      .update(notification)
      .set({ read_at: sql`now()` })
      .where(sql`${id} in (select id from unread limit ${limit})`)
      .returning({ id })}
    select (select count(*)::int from marked) as marked, (select count(*) from unread) > ${limit} as has_more`
  },
)

/** The number of marked notifications, and whether unread ones up to the time remain. */
export interface MarkedNotifications {
  readonly marked_count: number
  readonly has_more: boolean
}

/** Marks the caller's notifications up to a time as read, the oldest first; not those about tasks that they no longer see. */
export const markRead = async (
  tx: TransactionContext<Principal>,
  until: string,
): Promise<MarkedNotifications> => {
  const [row] = await markUntil(tx, { until })
  return { marked_count: row?.marked ?? 0, has_more: row?.has_more ?? false }
}

/** Deletes notifications that are older than the retention. */
export const removeOldNotifications = deletionInBatches('notifications.delete_old', {
  parameters: { days: 'int' },
  table: notifications,
  condition: (p) => sql`${notifications.created_at} < ${retentionTime} - make_interval(days => ${p.days})`,
})

/** The reason for a notification that an event gives to others. Reminders are fired (due-reminders.ts), and exports tell of their end. */
export type NotificationReason = Exclude<
  components['schemas']['NotificationReason'],
  'reminder' | 'reminder_limit' | 'export' | 'import'
>

/** In order of precedence: if several reasons apply, the notification has the first. */
const reasons: readonly NotificationReason[] = ['mention', 'assignment', 'comment', 'completion']

/** Whether a text from the database is a reason. */
export const isNotificationReason = (text: string | null): text is NotificationReason =>
  reasons.some((reason) => reason === text)

const isOfType = (...types: readonly string[]): SQL =>
  sql`${event.type} in (${sql.join(
    types.map((type) => sql.raw(`'${type}'`)),
    sql`, `,
  )})`

/** Selects a recipient of a notification for each event in the reader's batch, and the reason. */
const recipientsOf = (
  reason: NotificationReason,
  user: SQLWrapper,
  commentId: SQLWrapper,
  from: SQL,
): SQL => sql`
  select ${user} as user_id, ${sql.raw(`'${reason}'`)} as reason, ${sql.raw(String(reasons.indexOf(reason)))} as rank,
    ${event.id} as event_id, ${event.actor_id}, ${event.task_id}, ${commentId} as comment_id, ${event.changed_in}, ${event.ordinal}
  from batch event ${from}`

const none = sql.raw('null::uuid')
const followers = sql`join task_followers follower on ${follower.task_id} = ${event.task_id} and not ${follower.has_stopped}`
const lockedComment = sql`join comments comment on ${comment.id} = ${event.resource_id} and ${comment.id} in (select id from locked_comments)`

// Editing a comment notifies only users whom it did not mention before.
const wasMentioned = (earlier: typeof notifications | typeof heldNotifications): SQL => sql`exists (
  select from ${earlier}
  where ${earlier.comment_id} = ${comment.id} and ${earlier.user_id} = person and ${earlier.reason} = 'mention')`

const mentioned = sql`
  select distinct on (comment_id, user_id) * from (
    ${recipientsOf('mention', sql`person`, comment.id, sql`${lockedComment} cross join lateral unnest(${comment.mentions}) person`)}
    where ${isOfType('comment.created', 'comment.updated')}
      and not ${wasMentioned(notifications)} and not ${wasMentioned(heldNotifications)}
  ) mentioned order by comment_id, user_id, changed_in, ordinal`

// The assignee of a task that recurs knows the next one.
const isAssignment = sql`(${isOfType('task.created', 'task.updated')} and ${event.after} ->> 'assignee_id' is not null
  and ${event.after} ->> 'recurred_from' is null)`

const assigned = sql`
  ${recipientsOf('assignment', sql`(${event.after} ->> 'assignee_id')::uuid`, none, sql``)} where ${isAssignment}`

const commented = sql`
  ${recipientsOf('comment', follower.user_id, comment.id, sql`${lockedComment} ${followers}`)} where ${isOfType('comment.created')}`

const isCompletion = sql`(${isOfType('task.updated')} and ${event.after} ->> 'status' = 'done')`

const completed = sql`${recipientsOf('completion', follower.user_id, none, followers)} where ${isCompletion}`

/** Events per statement: about 20 ms with ten followers each. */
const batchSize = 100

/** Whether neither the row `task` nor its project is in the trash. */
const isLive = sql`(${task.deleted_at} is null and ${isListLive(task)})`

const isRestoration = isOfType('task.restored', 'project.restored')

/** The held notifications `held` of the tasks and projects that the events of the batch restore, unless they are in the trash again. */
const heldOfRestored = (): SQL => {
  const heldOfLiveTasks = sql`held_notifications held join tasks task on ${task.id} = ${held.task_id} and ${isLive}`
  return sql`
    select held.*, ${event.ordinal} from batch event join ${heldOfLiveTasks} on ${held.task_id} = ${event.task_id}
    where ${isOfType('task.restored')}
    union
    select held.*, ${event.ordinal} from batch event join ${heldOfLiveTasks} on ${task.project_id} = ${event.project_id}
    where ${isOfType('project.restored')}`
}

/**
 * Locks the tasks and then the comments that notifications refer to, before any notification is written: whoever deletes a task or a
 * comment locks it before its notifications. What was deleted meanwhile is left out.
 */
const lockReferred = sql`
  referred as materialized (
    select ${event.task_id}, case when ${isOfType('comment.created', 'comment.updated')} then ${event.resource_id} end as comment_id
    from batch event
    union select task_id, comment_id from (${heldOfRestored()}) restored
  ), locked_tasks as materialized (
    select id from tasks where id in (select task_id from referred) order by id for key share
  ), locked_comments as materialized (
    select id from comments where id in (select comment_id from referred) and (select count(*) from locked_tasks) > 0
    order by id for key share
  )`

/**
 * Makes notifications of the events since the last run, for users who can see the tasks now. Those of tasks in the trash are held, and
 * made when the task is restored, with the time at which they become visible: the time while the reader's row is locked, so that later
 * notifications have later times.
 */
export const notifyOfEvents = eventReader({
  name: 'notifications.insert',
  reader: 'notifications',
  limit: batchSize,
  isOfInterest: sql`(${isOfType('comment.created', 'comment.updated')} or ${isAssignment} or ${isCompletion} or ${isRestoration})`,
  make: sql`
    ${lockReferred}, recipients as materialized (
      select recipient.* from (
        select distinct on (event_id, user_id) * from (
          (${mentioned}) union all ${assigned} union all ${commented} union all ${completed}
        ) reasons order by event_id, user_id, rank
      ) recipient join locked_tasks on locked_tasks.id = recipient.task_id
      where recipient.user_id is distinct from recipient.actor_id
    ), held as (
      insert into held_notifications (user_id, reason, event_id, actor_id, task_id, comment_id)
      select recipient.user_id, recipient.reason, recipient.event_id, recipient.actor_id, recipient.task_id, recipient.comment_id
      from recipients recipient join tasks task on ${task.id} = ${recipient.task_id}
        join users person on ${person.id} = ${recipient.user_id}
      where not ${isLive}
      on conflict do nothing
    ), restored as materialized (
      select restored.* from (${heldOfRestored()}) restored join locked_tasks on locked_tasks.id = restored.task_id
      where comment_id is null or comment_id in (select id from locked_comments)
    ), released as (
      delete from held_notifications held using restored
      where (held.user_id, held.event_id) = (restored.user_id, restored.event_id)
    ), made as (
      insert into notifications (id, user_id, reason, event_id, actor_id, task_id, comment_id, created_at)
      select event_id(clock_timestamp(), ordinal), user_id, reason, event_id, actor_id, task_id, comment_id, clock_timestamp() from (
        select recipient.* from (
          select user_id, reason, event_id, actor_id, task_id, comment_id, changed_in, ordinal from recipients
          union all
          select distinct on (user_id, event_id) user_id, reason, event_id, actor_id, task_id, comment_id, null, ordinal from restored
        ) recipient
          join users person on ${person.id} = ${recipient.user_id} and ${person.deleted_at} is null
          join tasks task on ${task.id} = ${recipient.task_id}
        where ${isSeenBy(person, task)}
        order by recipient.changed_in nulls first, recipient.ordinal, recipient.event_id, recipient.user_id
      ) recipient
      on conflict (user_id, event_id) do nothing
    )`,
})
