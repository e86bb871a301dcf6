import { nilId } from '../../domain/shared/nil-id.ts'
import { priorityRanks, statusRanks } from '../../domain/tasks/ranks.ts'
import { type SQL, sql, type SQLWrapper } from './drizzle.ts'

/** Expressions that tasks are sorted and ranked by. Indexes use some of them (`tables.ts`). */

const rank = (ranks: readonly string[], value: SQLWrapper): SQL =>
  sql`array_position(${sql.raw(`'{${ranks.join()}}'::text[]`)}, ${value})`

export const statusRank = (status: SQLWrapper): SQL => rank(statusRanks, status)

export const priorityRank = (priority: SQLWrapper): SQL => rank(priorityRanks, priority)

/** The words of the title among those of a task: a trigger gives them the weight A. */
export const wordsOfTitle = (search: SQLWrapper): SQL => sql`ts_filter(${search}, '{a}')`

/** The first 100 characters of a folded title, so that a cursor stays short. */
export const titleOrder = (titleFolded: SQLWrapper): SQL => sql`left(${titleFolded}, 100)`

/** Dates of either kind: times, or days. */
interface Dates {
  readonly at: SQLWrapper
  readonly on: SQLWrapper
}

/** The due time for sorting. In UTC for all users, so that an index has the order; an all-day date is the last millisecond of its day. */
export const dueOrder = ({ at, on }: Dates): SQL => sql`coalesce(${at}, ${endOfDay(on)})`

/** The start time for sorting, likewise; an all-day date is the first millisecond of its day. */
export const startOrder = ({ at, on }: Dates): SQL => sql`coalesce(${at}, ${startOfDay(on)})`

export const startOfDay = (day: SQLWrapper): SQL => sql`${day}::timestamp at time zone 'UTC'`
export const endOfDay = (day: SQLWrapper): SQL => sql`(${day} + time '23:59:59.999') at time zone 'UTC'`

/** True for every row. An index with this condition is used only by queries that state it. */
export const isNotNil = (id: SQLWrapper): SQL => sql`${id} <> ${sql.raw(`'${nilId}'::uuid`)}`

/** The list in which a task has its position: its project, or the personal tasks of its owner. */
export const listOfTask = (task: { readonly project_id: SQLWrapper; readonly owner_id: SQLWrapper }): SQL =>
  sql`coalesce(${task.project_id}, ${task.owner_id})`
