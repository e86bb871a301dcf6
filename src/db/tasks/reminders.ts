import { rangeOperators, type TaskDates } from '../../domain/shared/dates.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import {
  maxOpenReminders,
  maxReminders,
  remindAt,
  type ReminderCounts,
  type ReminderTime,
} from '../../domain/tasks/reminders.ts'
import type { SortBy } from '../../domain/shared/sort.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsReminder, isSeenBy } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { conditionsOf, filterBy, filterOneOf } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { anyOf, type Parameters, type ParametersOf, type Placeholders } from '../statements/parameters.ts'
import { retentionTime } from '../shared/retention.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowDeletion, rowLock } from '../statements/row-statements.ts'
import { query, statement, type StatementName } from '../statements/statement.ts'
import { selectPage } from '../lists/list.ts'
import type { SortField } from '../lists/keyset.ts'
import { lockUser } from '../shared/lock-member.ts'
import { reminderJson } from '../shared/read-models.ts'
import { aliasedTable, eq, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { reminders, tasks, users } from '../schema/tables.ts'
import { lockTask, type TaskFacts } from './facts.ts'
import { touched, touchedBeside } from '../shared/touch.ts'

/**
 * Reminders. What they are computed from changes in other transactions too: the dates of the task, and the time zone of the user. Whoever
 * computes one locks it first, or for a new one its user and its task, and then reads what it depends on. Whoever changes a date or a time
 * zone writes that before: of two transactions, the second sees the change of the first. The order of the locks is that of `lock-order.ts`.
 */

const { start_at, start_on, due_at, due_on } = tasks
const dateColumns = { start_at, start_on, due_at, due_on }

const item = aliasedTable(reminders, 'item')
const reminder = aliasedTable(reminders, 'reminder')
const task = aliasedTable(tasks, 'task')
const person = aliasedTable(users, 'person')

/** A reminder as JSON text. */
export interface ReminderRow {
  readonly json: string
}

const selectOne = query(
  'reminders.select',
  { id: 'uuid' },
  { json: 'text' },
  (p) => sql`
    select ${reminderJson(reminder)} as json from reminders reminder
    where ${reminder.id} = ${p.id} and ${allowsReminder('reminder.see', p, reminder)}`,
)

/** One reminder of the caller, if they see its task. */
export const selectReminder = async (
  ctx: StatementContext<Principal>,
  id: string,
): Promise<ReminderRow | null> => firstRow(await selectOne(ctx, { id }))

/** A reminder that the transaction has written. */
export const viewReminder = async (tx: TransactionContext<Principal>, id: string): Promise<ReminderRow> =>
  expectRow(await selectOne(tx, { id }))

/** Filters of the list. */
export interface ReminderFilter {
  readonly task_id?: readonly string[]
  readonly is_pending?: boolean
  readonly remind_after?: string
  readonly remind_before?: string
}

const remindsBy = (end: keyof typeof rangeOperators) =>
  filterBy('instant', (time) => sql`${item.remind_at} ${sql.raw(rangeOperators[end])} ${time}`)

const filters = {
  task_id: filterOneOf('uuid', item.task_id),
  is_pending: filterBy('bool', (isPending) => sql`(${item.fires_at} is not null) = ${isPending}`),
  remind_after: remindsBy('after'),
  remind_before: remindsBy('before'),
}

const remindAtField: SortField = {
  value: sql`item.remind_at`,
  type: 'instant',
  isNullable: true,
  isIndexed: true,
}

const nextFirst: readonly SortBy<'remind_at'>[] = [{ field: 'remind_at', descending: false }]

/** A page of the caller's reminders about tasks that they see. */
export const selectReminders = (
  { db, principal }: StatementContext<Principal>,
  filter: ReminderFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'reminders',
      table: reminders,
      branches: (caller) => onlyBranch(allowsReminder('reminder.see', caller, item)),
      filters: conditionsOf(filters, filter),
      sortFields: { remind_at: remindAtField },
      order: nextFirst,
      json: reminderJson,
    },
    principal,
    page,
  )

/** What a time is computed from: the dates of the task, and the time zone of the user. */
export interface ReminderBasis extends Required<TaskDates> {
  readonly time_zone: string
}

/** What a new reminder depends on. */
interface NewReminderFacts extends ReminderBasis, ReminderCounts {
  /** The caller's reminders about the task. */
  readonly of_task: number
}

/**
 * The number of a user's reminders of open tasks. Closing an occurrence so frees the room that the reminders of the next one take, and
 * those of closed tasks, which do not fire, are kept until they are old.
 */
const openReminders = (userId: SQLWrapper): SQL<number> => sql`
  (select count(*)::int from reminders counted join tasks reminded on reminded.id = counted.task_id
  where counted.user_id = ${userId} and reminded.status in ('todo', 'in_progress'))`

const allReminders = (userId: SQLWrapper): SQL<number> => sql`
  (select count(*)::int from reminders counted where counted.user_id = ${userId})`

const selectNew = builtStatement('reminders.select_new', { task_id: 'uuid', user_id: 'uuid' }, (db, p) => {
  const own = sql`select count(*)::int from reminders where ${reminders.user_id} = ${p.user_id}`
  return db
    .select({
      ...dateColumns,
      time_zone: users.time_zone,
      of_task: sql<number>`(${own} and ${reminders.task_id} = ${p.task_id})`.as('of_task'),
      open_reminders: openReminders(p.user_id).as('open_reminders'),
      reminders: allReminders(p.user_id).as('reminders'),
    })
    .from(tasks)
    .innerJoin(users, eq(users.id, p.user_id))
    .where(eq(tasks.id, p.task_id))
})

// Not the row of the user: closing a task counts the reminders of others, after the task was locked.
const countLock = (userId: SQLWrapper): SQL =>
  sql`pg_advisory_xact_lock(hashtextextended('reminders ' || ${userId}::text, 0))::text as locked`

const lockCount = statement(
  'reminders.lock_count',
  { user_id: 'uuid' },
  {},
  (p) => sql`select ${countLock(p.user_id)}`,
)

const lockCountsOfTasks = statement(
  'reminders.lock_counts_of_tasks',
  { ids: 'uuid[]' },
  {},
  (p) => sql`
    select ${countLock(sql`users.user_id`)} from (
      select distinct user_id from reminders where ${reminders.task_id} = ${anyOf(p.ids)} and ${reminders.relative_to} is not null
      order by user_id
    ) users`,
)

/**
 * Locks the time zone of the caller, the task and the number of the caller's reminders, and reads under the locks what a new one depends on;
 * null if they cannot see the task.
 */
export const lockForReminder = async (
  tx: TransactionContext<Principal>,
  taskId: string,
): Promise<(NewReminderFacts & Pick<TaskFacts, 'relations'>) | null> => {
  const { userId } = tx.principal
  const { task, facts } = await pipeline(tx.db, {
    user: () => lockUser(tx.db, { id: userId }),
    task: () => lockTask(tx, taskId),
    counters: () => lockCount(tx.db, { user_id: userId }),
    facts: () => selectNew(tx.db, { task_id: taskId, user_id: userId }),
  })
  const [row] = facts
  return task === null || row === undefined ? null : { ...row, relations: task.relations }
}

/** When a reminder is due, and to when it is postponed. */
export interface ReminderFields extends ReminderTime {
  /** Null: it is not postponed. */
  readonly snoozed_until: string | null
}

/** The same with what follows from it. */
export interface ComputedReminder extends ReminderFields {
  readonly remind_at: string | null
}

const fieldParameters = {
  id: 'uuid',
  at: 'instant?',
  relative_to: 'text?',
  offset_minutes: 'int?',
  time_of_day: 'text?',
  snoozed_until: 'instant?',
  remind_at: 'instant?',
} as const satisfies ParametersOf<typeof reminders>

/** An instant that has passed does not fire, unless the user has just asked for it. */
const ifAhead = (instant: SQLWrapper, isWanted: SQL): SQL =>
  sql`case when ${instant} > now() or ${isWanted} then ${instant} end`

/** Whether the user has named the instant: services/tasks/reminders.ts refuses those that are long past. */
const isNamed = (p: Pick<Placeholders<typeof fieldParameters>, 'at' | 'snoozed_until'>): SQL =>
  sql`(coalesce(${p.snoozed_until}, ${p.at}) > now() - interval '1 minute')`

const count = statement(
  'reminders.count',
  { user_id: 'uuid' },
  { open_reminders: 'int', reminders: 'int' },
  (p) => sql`select ${openReminders(p.user_id)} as open_reminders, ${allReminders(p.user_id)} as reminders`,
)

/** Locks and counts the caller's reminders. */
export const countReminders = async ({
  db,
  principal,
}: TransactionContext<Principal>): Promise<ReminderCounts> => {
  const values = { user_id: principal.userId }
  const { counted } = await pipeline(db, {
    counters: () => lockCount(db, values),
    counted: () => count(db, values),
  })
  return expectRow(counted)
}

const selectEqual = statement(
  'reminders.select_equal',
  {
    task_id: 'uuid',
    user_id: 'uuid',
    at: 'instant?',
    relative_to: 'text?',
    offset_minutes: 'int?',
    time_of_day: 'text?',
  },
  { id: 'text' },
  (p) => sql`
    select ${reminders.id}::text from reminders where ${reminders.task_id} = ${p.task_id} and ${reminders.user_id} = ${p.user_id}
      and (${reminders.at}, ${reminders.relative_to}, ${reminders.offset_minutes}, ${reminders.time_of_day})
        is not distinct from (${p.at}, ${p.relative_to}, ${p.offset_minutes}, ${p.time_of_day})
    limit 1`,
)

/** The caller's reminder of a locked task that is due at the same time, by the same fields; null if there is none. */
export const findEqualReminder = async (
  { db, principal }: TransactionContext<Principal>,
  taskId: string,
  { at, relative_to, offset_minutes, time_of_day }: ReminderTime,
): Promise<string | null> => {
  const time = { at, relative_to, offset_minutes, time_of_day }
  const row = firstRow(await selectEqual(db, { ...time, task_id: taskId, user_id: principal.userId }))
  return row?.id ?? null
}

const insert = builtStatement(
  'reminders.insert',
  { ...fieldParameters, task_id: 'uuid', user_id: 'uuid' },
  (db, p) => db.insert(reminders).values({ ...p, fires_at: ifAhead(p.remind_at, isNamed(p)) }),
)

/** Inserts a reminder of the caller. */
export const insertReminder = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  taskId: string,
  fields: ComputedReminder,
): Promise<void> => {
  await insert(db, { ...fields, id, task_id: taskId, user_id: principal.userId })
}

/** What a change of a reminder depends on. */
export interface ReminderFacts extends ReminderFields, ReminderBasis {
  readonly id: string
  readonly task_id: string
  readonly version: number
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const selectPlace = builtStatement('reminders.select_place', { id: 'uuid' }, (db, p) =>
  db
    .select({ task_id: reminders.task_id, user_id: reminders.user_id })
    .from(reminders)
    .where(eq(reminders.id, p.id)),
)

const lock = rowLock('reminders.lock', reminders, 'update')

const basisColumns = {
  id: reminders.id,
  task_id: reminders.task_id,
  at: reminders.at,
  relative_to: reminders.relative_to,
  offset_minutes: reminders.offset_minutes,
  time_of_day: reminders.time_of_day,
  snoozed_until: reminders.snoozed_until,
  remind_at: reminders.remind_at,
  fires_at: reminders.fires_at,
  fired_at: reminders.fired_at,
  version: reminders.version,
  ...dateColumns,
  time_zone: users.time_zone,
}

const selectBases = builtStatement('reminders.select_bases', { ids: 'uuid[]' }, (db, p) =>
  db
    .select(basisColumns)
    .from(reminders)
    .innerJoin(tasks, eq(tasks.id, reminders.task_id))
    .innerJoin(users, eq(users.id, reminders.user_id))
    .where(eq(reminders.id, anyOf(p.ids))),
)

/** Locks a reminder of the caller and, before it, their time zone and its task, and reads it under the locks, unless they cannot see the task. */
export const lockReminder = async (
  tx: TransactionContext<Principal>,
  id: string,
): Promise<ReminderFacts | null> => {
  // A reminder stays with its task and its user.
  const [place] = await selectPlace(tx.db, { id })
  if (place?.user_id !== tx.principal.userId) return null
  const { task, bases } = await pipeline(tx.db, {
    user: () => lockUser(tx.db, { id: place.user_id }),
    task: () => lockTask(tx, place.task_id),
    lock: () => lock(tx.db, { id }),
    bases: () => selectBases(tx.db, { ids: [id] }),
  })
  const [row] = bases
  if (row === undefined || task?.relations.includes('sees_task') !== true) return null
  return { ...row, relations: ['recipient'] }
}

type Changeable = Authorized<'reminder.change', ReminderFacts>

const update = builtStatement('reminders.update', fieldParameters, (db, { id, ...fields }) =>
  db
    .update(reminders)
    .set({
      ...fields,
      relative_to: sql`${fields.relative_to}`,
      fires_at: ifAhead(fields.remind_at, isNamed(fields)),
      ...touched(reminders),
    })
    .where(eq(reminders.id, id)),
)

/** Changes when a reminder is due. */
export const changeReminder = async (
  { db }: TransactionContext,
  { id }: Changeable,
  fields: ComputedReminder,
): Promise<void> => {
  await update(db, { ...fields, id })
}

const remove = rowDeletion('reminders.delete', reminders)

/** Deletes a reminder. */
export const removeReminder = async ({ db }: TransactionContext, { id }: Changeable): Promise<void> => {
  await remove(db, { id })
}

/** Locks reminders in the order of their ids. */
const lockAll = <P extends Parameters>(
  name: StatementName,
  parameters: P,
  condition: (p: Placeholders<P>) => SQL,
) =>
  statement(
    name,
    parameters,
    { id: 'text' },
    (p) => sql`
    select ${reminders.id}::text from reminders where ${condition(p)} order by ${reminders.id} for no key update`,
  )

const lockById = lockAll(
  'reminders.lock_by_id',
  { ids: 'uuid[]' },
  (p) => sql`${reminders.id} = ${anyOf(p.ids)}`,
)

const lockRelative = lockAll(
  'reminders.lock_relative',
  { due: 'uuid[]', start: 'uuid[]' },
  (p) => sql`(
    ${reminders.task_id} = ${anyOf(p.due)} and ${reminders.relative_to} = 'due'
    or ${reminders.task_id} = ${anyOf(p.start)} and ${reminders.relative_to} = 'start')`,
)

// All of them: one that a waiting transaction makes relative to a date must be found as well.
const lockOfUser = lockAll(
  'reminders.lock_of_user',
  { id: 'uuid' },
  (p) => sql`${reminders.user_id} = ${p.id}`,
)

const writeTimes = statement(
  'reminders.write_times',
  { times: 'json', side_changes: 'int' },
  {},
  (p) => sql`
    update reminders set remind_at = computed.remind_at, snoozed_until = computed.snoozed_until, fires_at = computed.fires_at,
      side_changes = ${reminders.side_changes} + ${p.side_changes}, updated_at = ${touchedBeside(reminders).updated_at}
    from jsonb_to_recordset(${p.times} -> 'rows') as computed (
      id uuid, remind_at timestamptz, snoozed_until timestamptz, fires_at timestamptz)
    where ${reminders.id} = computed.id`,
)

/** A reminder, and what it is computed from. */
type Basis = Awaited<ReturnType<typeof selectBases>>[number]

/** What a reminder becomes. */
interface Computed {
  readonly remind_at: string | null
  readonly snoozed_until: string | null
  readonly fires_at: string | null
}

/** Reminders per statement: about 20 ms. */
const batchSize = 250

/** Computes locked reminders anew, and writes those that change. */
const compute = async (
  { db }: Pick<TransactionContext, 'db'>,
  locked: readonly { readonly id: string }[],
  compute: (basis: Basis) => Computed | null,
  { isNew = false }: { readonly isNew?: boolean } = {},
): Promise<void> => {
  for (let start = 0; start < locked.length; start += batchSize) {
    const ids = locked.slice(start, start + batchSize).map(({ id }) => id)
    const rows = (await selectBases(db, { ids })).flatMap((basis) => {
      const after = compute(basis)
      return after === null || after.remind_at === basis.remind_at ? [] : [{ id: basis.id, ...after }]
    })
    if (rows.length > 0) await writeTimes(db, { times: { rows }, side_changes: isNew ? 0 : 1 })
  }
}

/** The date has changed that it is relative to: it is not snoozed any more, and fires again. */
const withDate =
  (now: string) =>
  (basis: Basis): Computed => {
    const remind_at = remindAt(basis, basis, basis.time_zone)
    return {
      remind_at,
      snoozed_until: null,
      fires_at: remind_at !== null && remind_at > now ? remind_at : null,
    }
  }

/** Tasks whose dates have changed. */
interface Redated {
  readonly due: readonly string[]
  readonly start: readonly string[]
}

/** Moves the reminders that are relative to dates of tasks, after these have changed. */
export const moveReminders = async (
  tx: Pick<TransactionContext, 'db'>,
  redated: Redated,
  now: Date,
): Promise<void> => compute(tx, await lockRelative(tx.db, redated), withDate(now.toISOString()))

/**
 * In another time zone, one that is still to come moves. If its time has passed there already, it fires at once. One that has fired does
 * not fire again because somebody travels.
 */
const withTimeZone =
  (now: string) =>
  (basis: Basis): Computed | null => {
    const { snoozed_until, fires_at, fired_at } = basis
    if (snoozed_until !== null || (fires_at === null && fired_at !== null)) return null
    const remind_at = remindAt(basis, basis, basis.time_zone)
    const isToCome = fires_at !== null || (remind_at !== null && remind_at > now)
    return { remind_at, snoozed_until, fires_at: isToCome ? remind_at : null }
  }

/** Moves the reminders of a user after their time zone has changed. */
export const moveRemindersOfUser = async (
  tx: Pick<TransactionContext, 'db'>,
  id: string,
  now: Date,
): Promise<void> => compute(tx, await lockOfUser(tx.db, { id }), withTimeZone(now.toISOString()))

// A user has at most so many, also because of tasks that others close. Their tasks are closed by now.
const copy = statement(
  'reminders.copy',
  { from_ids: 'uuid[]', to_ids: 'uuid[]' },
  { id: 'text' },
  (p) => sql`
    with each_once as materialized (
      select distinct on (copy.to_id, ${reminder.user_id}, ${reminder.relative_to}, ${reminder.offset_minutes}, ${reminder.time_of_day})
        reminder.*, copy.from_id, copy.to_id
      from unnest(${p.from_ids}, ${p.to_ids}) as copy (from_id, to_id) join reminders reminder on ${reminder.task_id} = copy.from_id
        join tasks task on ${task.id} = copy.to_id
        join users person on ${person.id} = ${reminder.user_id} and ${person.deleted_at} is null and not ${person.is_disabled}
      where ${reminder.relative_to} is not null and ${isSeenBy(person, task)}
    ), wanted as materialized (
      select *, row_number() over (partition by user_id order by to_id, id) as number from each_once
    ), room as materialized (
      select users.user_id, least(${sql.raw(String(maxOpenReminders))} - ${openReminders(sql`users.user_id`)},
        ${sql.raw(String(maxReminders))} - ${allReminders(sql`users.user_id`)}) as room
      from (select distinct user_id from wanted) users
    ), fitted as materialized (
      select wanted.*, number <= room as fits from wanted join room using (user_id)
    ), recorded as materialized (
      select left_out.*, record_event_for(user_id, 'task.reminder_limit', to_id, ${task.project_id}, ${task.owner_id},
        ${task.assignee_id}, from_id, '{}', '{}') as event_id
      from (select distinct user_id, from_id, to_id from fitted where not fits order by user_id, to_id) left_out
        join tasks task on ${task.id} = to_id
    ), notified as (
      insert into notifications (id, user_id, reason, event_id, task_id, created_at)
      select event_id(clock_timestamp(), row_number() over ()), user_id, 'reminder_limit', event_id, to_id, clock_timestamp() from recorded
    )
    insert into reminders (id, task_id, user_id, relative_to, offset_minutes, time_of_day)
    select event_id(clock_timestamp(), row_number() over (order by to_id, id)), to_id, user_id, relative_to, offset_minutes, time_of_day
    from fitted where fits
    returning id::text`,
)

/**
 * Gives new tasks that repeat others the reminders that are relative to their dates, of users who see them, and who are locked. Users who
 * have too many for that get an event and a notification.
 */
export const remindOfCopies = async (
  tx: TransactionContext,
  copies: readonly { readonly from: string; readonly to: string }[],
  now: Date,
): Promise<void> => {
  const from_ids = copies.map(({ from }) => from)
  const { made } = await pipeline(tx.db, {
    counters: () => lockCountsOfTasks(tx.db, { ids: from_ids }),
    made: () => copy(tx.db, { from_ids, to_ids: copies.map(({ to }) => to) }),
  })
  if (made.length === 0) return
  const locked = await lockById(tx.db, { ids: made.map(({ id }) => id) })
  await compute(tx, locked, withDate(now.toISOString()), { isNew: true })
}

/** Deletes reminders whose time was long ago, and which are not to come. */
export const removeOldReminders = deletionInBatches('reminders.delete_old', {
  parameters: { days: 'int' },
  table: reminders,
  condition: (p) => sql`
    ${reminders.fires_at} is null and ${reminders.remind_at} < ${retentionTime} - make_interval(days => ${p.days})`,
})
