import { rangeOperators, type TaskDates } from '../domain/dates.ts'
import type { Page, PageRequest } from '../domain/pages.ts'
import type { Authorized, Principal, Relation } from '../domain/permissions.ts'
import { remindAt, type ReminderTime } from '../domain/reminders.ts'
import type { SortBy } from '../domain/sort.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsRecipient } from './access/permissions.ts'
import { builtStatement } from './engine/built-statement.ts'
import { conditionsOf, filterBy, filterOneOf } from './engine/conditions.ts'
import type { StatementContext, TransactionContext } from './engine/context.ts'
import { anyOf, type ParametersOf, type Placeholders } from './engine/parameters.ts'
import { expectRow, firstRow, rowDeletion, rowLock } from './engine/row-statements.ts'
import { query, statement, type StatementName } from './engine/statement.ts'
import { selectPage } from './lists/list.ts'
import type { SortField } from './lists/keyset.ts'
import { reminderJson } from './read-models.ts'
import { aliasedTable, eq, type SQL, sql, type SQLWrapper } from './schema/drizzle.ts'
import { reminders, tasks, users } from './schema/tables.ts'
import { lockTask, type TaskFacts } from './task-facts.ts'
import { touched } from './touch.ts'
import { lockToChange } from './users.ts'

/**
 * Reminders. What they are computed from changes in other transactions too: the dates of the task, and the time zone of the user. Whoever
 * computes one locks it first (for a new one, its task and its user), and then reads what it depends on. Whoever changes a date or a time
 * zone writes that before: of two transactions, the second sees the change of the first.
 */

const { start_at, start_on, due_at, due_on } = tasks
const dateColumns = { start_at, start_on, due_at, due_on }

const item = aliasedTable(reminders, 'item')
const reminder = aliasedTable(reminders, 'reminder')

/** A reminder as JSON text, and its version. */
export interface ReminderRow {
  readonly json: string
  readonly version: number
}

const selectOne = query(
  'reminders.select',
  { id: 'uuid' },
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${reminderJson(reminder)} as json, ${reminder.version} from reminders reminder
    where ${reminder.id} = ${p.id} and ${allowsRecipient('reminder.see', p, reminder)}`,
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
  readonly pending?: boolean
  readonly remind_after?: string
  readonly remind_before?: string
}

const remindsBy = (end: keyof typeof rangeOperators) =>
  filterBy('instant', (time) => sql`${item.remind_at} ${sql.raw(rangeOperators[end])} ${time}`)

const filters = {
  task_id: filterOneOf('uuid', item.task_id),
  pending: filterBy('bool', (pending) => sql`(${item.fires_at} is not null) = ${pending}`),
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
      branches: (caller) => onlyBranch(allowsRecipient('reminder.see', caller, item)),
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
interface NewReminderFacts extends ReminderBasis {
  /** The caller's reminders about the task. */
  readonly of_task: number
  /** The caller's reminders that are still to come. */
  readonly pending: number
}

const selectNew = builtStatement('reminders.select_new', { task_id: 'uuid', user_id: 'uuid' }, (db, p) => {
  const own = sql`select count(*)::int from reminders where ${reminders.user_id} = ${p.user_id}`
  return db
    .select({
      ...dateColumns,
      time_zone: users.time_zone,
      of_task: sql<number>`(${own} and ${reminders.task_id} = ${p.task_id})`.as('of_task'),
      pending: sql<number>`(${own} and ${reminders.fires_at} is not null)`.as('pending'),
    })
    .from(tasks)
    .innerJoin(users, eq(users.id, p.user_id))
    .where(eq(tasks.id, p.task_id))
})

/**
 * Locks the caller, so that neither another reminder nor their time zone is written meanwhile, and the task, and reads under the locks what
 * a new reminder depends on; null if they cannot see the task.
 */
export const lockForReminder = async (
  tx: TransactionContext<Principal>,
  taskId: string,
): Promise<(NewReminderFacts & Pick<TaskFacts, 'relations'>) | null> => {
  const { userId } = tx.principal
  const [, task, [row]] = await Promise.all([
    lockToChange(tx.db, { id: userId }),
    lockTask(tx, taskId),
    selectNew(tx.db, { task_id: taskId, user_id: userId }),
  ])
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

/** An instant that has passed does not fire. */
const ifAhead = (instant: SQLWrapper): SQL => sql`case when ${instant} > now() then ${instant} end`

const insert = builtStatement(
  'reminders.insert',
  { ...fieldParameters, task_id: 'uuid', user_id: 'uuid' },
  (db, p) => db.insert(reminders).values({ ...p, fires_at: ifAhead(p.remind_at) }),
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
  at: reminders.at,
  relative_to: reminders.relative_to,
  offset_minutes: reminders.offset_minutes,
  time_of_day: reminders.time_of_day,
  snoozed_until: reminders.snoozed_until,
  remind_at: reminders.remind_at,
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

/** Locks a reminder of the caller and, before it, its task, and reads it under the locks, unless they cannot see the task. */
export const lockReminder = async (
  tx: TransactionContext<Principal>,
  id: string,
): Promise<ReminderFacts | null> => {
  // A reminder stays with its task and its user.
  const [place] = await selectPlace(tx.db, { id })
  if (place?.user_id !== tx.principal.userId) return null
  const [task, , [row]] = await Promise.all([
    lockTask(tx, place.task_id),
    lock(tx.db, { id }),
    selectBases(tx.db, { ids: [id] }),
  ])
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
      fires_at: ifAhead(fields.remind_at),
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
const lockAll = (name: StatementName, condition: (p: Placeholders<{ ids: 'uuid[]' }>) => SQL) =>
  statement(
    name,
    { ids: 'uuid[]' },
    { id: 'text' },
    (p) => sql`
    select ${reminders.id}::text from reminders where ${condition(p)} order by ${reminders.id} for no key update`,
  )

const lockById = lockAll('reminders.lock_by_id', (p) => sql`${reminders.id} = ${anyOf(p.ids)}`)

const isRelative = sql`${reminders.relative_to} is not null`

const lockOfTasks = lockAll(
  'reminders.lock_of_tasks',
  (p) => sql`${reminders.task_id} = ${anyOf(p.ids)} and ${isRelative}`,
)

// Those that have fired do not fire again because somebody travels.
const lockOfUsers = lockAll(
  'reminders.lock_of_users',
  (p) => sql`${reminders.user_id} = ${anyOf(p.ids)} and ${reminders.fires_at} is not null and ${isRelative}`,
)

const writeTimes = statement(
  'reminders.write_times',
  { times: 'json' },
  {},
  (p) => sql`
    update reminders set remind_at = computed.remind_at, snoozed_until = computed.snoozed_until,
      fires_at = ${ifAhead(sql`computed.remind_at`)}, version = ${reminders.version} + 1, updated_at = ${touched(reminders).updated_at}
    from jsonb_to_recordset(${p.times} -> 'rows') as computed (id uuid, remind_at timestamptz, snoozed_until timestamptz)
    where ${reminders.id} = computed.id`,
)

/**
 * Computes locked reminders anew, and writes those that change. If the date was changed that a snoozed one is relative to, it is not
 * snoozed any more.
 */
const compute = async (
  { db }: Pick<TransactionContext, 'db'>,
  locked: readonly { readonly id: string }[],
  { isRedated }: { readonly isRedated: boolean },
): Promise<void> => {
  if (locked.length === 0) return
  const bases = await selectBases(db, { ids: locked.map(({ id }) => id) })
  const rows = bases.flatMap((basis) => {
    const snoozed_until = isRedated ? null : basis.snoozed_until
    const remind_at = snoozed_until ?? remindAt(basis, basis, basis.time_zone)
    return remind_at === basis.remind_at ? [] : [{ id: basis.id, snoozed_until, remind_at }]
  })
  if (rows.length > 0) await writeTimes(db, { times: { rows } })
}

/** Moves the reminders that are relative to dates of tasks, after these have changed. */
export const moveReminders = async (
  tx: Pick<TransactionContext, 'db'>,
  taskIds: readonly string[],
): Promise<void> => compute(tx, await lockOfTasks(tx.db, { ids: taskIds }), { isRedated: true })

/** Moves the pending reminders of a user after their time zone has changed. */
export const moveRemindersOfUser = async (
  tx: Pick<TransactionContext, 'db'>,
  userId: string,
): Promise<void> => compute(tx, await lockOfUsers(tx.db, { ids: [userId] }), { isRedated: false })

const copy = statement(
  'reminders.copy',
  { from_ids: 'uuid[]', to_ids: 'uuid[]' },
  { id: 'text' },
  (p) => sql`
    insert into reminders (id, task_id, user_id, relative_to, offset_minutes, time_of_day)
    select event_id(clock_timestamp(), row_number() over (order by copy.to_id, ${reminder.id})),
      copy.to_id, user_id, relative_to, offset_minutes, time_of_day
    from unnest(${p.from_ids}, ${p.to_ids}) as copy (from_id, to_id) join reminders reminder on ${reminder.task_id} = copy.from_id
    where ${reminder.relative_to} is not null
    returning id::text`,
)

/** Gives new tasks that repeat others the reminders that are relative to their dates. */
export const remindOfCopies = async (
  tx: TransactionContext,
  copies: readonly { readonly from: string; readonly to: string }[],
): Promise<void> => {
  const from_ids = copies.map(({ from }) => from)
  const made = await copy(tx.db, { from_ids, to_ids: copies.map(({ to }) => to) })
  await compute(tx, await lockById(tx.db, { ids: made.map(({ id }) => id) }), { isRedated: true })
}
