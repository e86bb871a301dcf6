import { newId } from '../../db/shared/ids.ts'
import type { Recurrence } from '../../domain/tasks/recurrence.ts'
import { maxMovedSubtasks } from '../../domain/tasks/subtasks.ts'
import { changesDates, type TaskFields } from '../../domain/tasks/fields.ts'
import {
  type Anchor,
  anchoredSeries,
  anchorOf,
  datesOfNext,
  isLive,
  isSameRecurrence,
  maxRecurringTasks,
  type NextOccurrence,
  nextInSeries,
  noSeries,
  readRecurrence,
  type RecurrenceChange,
  seriesOf,
  shiftedDates,
  startSeries,
  type TaskSeries,
  type WantedRecurrence,
} from '../../domain/tasks/series.ts'
import { defaultTimeZone } from '../../domain/shared/time-zones.ts'
import { isInTree, isOpen, recurringRoot, subtasksOf } from '../../domain/tasks/trees.ts'
import { problems } from '../../problems/problems.ts'
import { expectMay } from '../shared/expectations.ts'
import {
  expectFewSubtasks,
  plannedTask,
  type PlannedTask,
  type RelatedTask,
  repeatTask,
  takeAlong,
  type TaskPlan,
  withdrawTask,
} from './plan.ts'

/**
 * What makes a task recur, and what closing and reopening it does. An occurrence is spent once it has created the next one, whatever
 * becomes of that one: closing it again creates nothing.
 */

/**
 * What the contract's schema does not check of a recurrence.
 *
 * @throws Problem 400
 */
export const expectRecurrence = (
  sent: RecurrenceChange,
  present: Recurrence | null,
  timeZone: string,
  pointer = '/recurrence',
): WantedRecurrence => {
  const read = readRecurrence(sent, present, timeZone)
  if ('message' in read) throw problems.invalidField(`${pointer}/${read.field}`, read.message)
  return read
}

/**
 * The series of a new task.
 *
 * @throws Problem 400, 422
 */
export const seriesOfNew = (plan: TaskPlan, task: TaskFields, sent: RecurrenceChange | null): TaskSeries => {
  if (sent === null) return noSeries
  if (recurringRoot(plan.tasks, task.parent_id) !== null) throw problems.recurrenceNested('/recurrence')
  return expectStarted(expectRecurrence(sent, null, plan.principal.timeZone), task, newId())
}

/** What a request does to the series of a task: nothing, or it ends, or the task becomes the first occurrence. */
type SeriesChange = 'none' | 'end' | { readonly start: WantedRecurrence }

/**
 * Decides what a request does to the series of a task. The same recurrence again is a change only if dates change with it, unless the
 * request is whole: PUT has all fields, whether or not it is about them.
 *
 * @throws Problem 400, 403
 */
export const changeOfSeries = (
  { principal }: TaskPlan,
  task: RelatedTask,
  after: TaskFields,
  sent: RecurrenceChange | null | undefined,
  isPut: boolean,
): SeriesChange => {
  if (sent === undefined) return 'none'
  const wanted = sent === null ? null : expectRecurrence(sent, task.recurrence, principal.timeZone)
  const restartsSeries = wanted !== null && !isPut && isLive(task) && changesDates(task, after)
  if (isSameRecurrence(wanted, task) && !restartsSeries) return 'none'
  expectMay('task.set_recurrence', task)
  return wanted === null ? 'end' : { start: wanted }
}

/**
 * The series of a task after that change.
 *
 * @throws Problem 409, 422
 */
export const seriesAfter = (
  plan: TaskPlan,
  task: PlannedTask,
  after: TaskFields,
  change: SeriesChange,
): TaskSeries => {
  if (change === 'none') return isLive(task) ? expectDated(anchoredSeries(task, after)) : seriesOf(task)
  if (task.next_task_id !== null) throw problems.recurrenceSpent(task.next_task_id)
  if (change === 'end') return noSeries
  const subtasks = expectFewSubtasks(plan, task)
  if (recurringRoot(plan.tasks, after.parent_id) !== null || subtasks.some(isLive))
    throw problems.recurrenceNested('/recurrence')
  if (subtasks.length >= maxRecurringTasks) throw problems.recurringTreeTooLarge('/recurrence')
  return expectStarted(change.start, after, task.series_id ?? newId(), task.recurrence_anchor?.of)
}

/** A series that counts from the wanted date, or else from the present one if the task still has it. */
const expectStarted = (
  recurrence: WantedRecurrence,
  task: TaskFields,
  id: string,
  present?: Anchor['of'],
): TaskSeries => {
  const { anchor: wanted } = recurrence
  if (wanted !== undefined && anchorOf(task, wanted)?.of !== wanted)
    throw problems.recurrenceWithoutAnchor(wanted)
  const anchor = wanted ?? present
  return expectDated(startSeries(id, anchor === undefined ? recurrence : { ...recurrence, anchor }, task))
}

const expectDated = (series: TaskSeries | null): TaskSeries => {
  if (series === null) throw problems.recurrenceWithoutDate()
  return series
}

/** Why a task cannot be in the tree of a parent, because that recurs; null if it can. */
export const refusalOfSeries = (
  plan: TaskPlan,
  task: { readonly id: string } & TaskSeries,
  parentId: string,
): 'nested' | 'too_large' | null => {
  const root = recurringRoot(plan.tasks, parentId)
  if (root === null) return null
  const moved = liveSubtasks(plan.tasks, task.id)
  if (isLive(task) || moved.some(isLive)) return 'nested'
  const added = liveSubtasks(plan.tasks, root.id).filter(({ id }) => !isInTree(plan.before, id, root.id))
  // Without a count, all of the tree was read.
  const present = plan.facts.recurringTrees.get(root.id) ?? liveSubtasks(plan.before, root.id).length + 1
  const size = new Set([...added, ...moved, task].map(({ id }) => id))
  const isThere = isInTree(plan.before, task.id, root.id)
  return !isThere && present + size.size > maxRecurringTasks ? 'too_large' : null
}

const liveSubtasks = (tasks: ReadonlyMap<string, PlannedTask>, id: string): readonly PlannedTask[] =>
  subtasksOf(
    [...tasks.values()].filter(({ isTrashed }) => !isTrashed),
    id,
  )

/** What a change of the status does to the series, beside the task itself: the next occurrence is created, or taken back. */
export type SeriesStep =
  | { readonly next_task_id: string; readonly next: NextOccurrence }
  | { readonly next_task_id: null; readonly withdrawn: readonly PlannedTask[] }

/**
 * Decides what a change of the status does to the series; null for nothing.
 *
 * @throws Problem 409
 */
export const seriesStep = (plan: TaskPlan, task: PlannedTask, after: TaskFields): SeriesStep | null => {
  if (isOpen(task.status) === isOpen(after.status)) return null
  if (isOpen(after.status)) return withdrawalOf(plan, after)
  const next = after.next_task_id === null ? nextInSeries(after, plan.now) : null
  if (next === null) return null
  if (plan.repeats.size + expectFewSubtasks(plan, task).length >= maxMovedSubtasks)
    throw problems.tooManySubtasks()
  return { next_task_id: newId(), next }
}

/** The next occurrence is taken back if nobody has touched it since it was created; otherwise both stay. */
const withdrawalOf = (plan: TaskPlan, { next_task_id }: TaskFields): SeriesStep | null => {
  const next = next_task_id === null ? undefined : plan.tasks.get(next_task_id)
  if (next === undefined || next.isTrashed) return null
  const withdrawn = [...expectFewSubtasks(plan, next), next]
  const isUntouched = withdrawn.every(
    ({ id, version, side_changes }) =>
      version + side_changes === 1 &&
      (plan.before.has(id) || plan.repeats.has(id)) &&
      !plan.facts.related.has(id),
  )
  return isUntouched ? { next_task_id: null, withdrawn } : null
}

/** Plans it, once the change of the task itself is planned. */
export const planSeriesStep = (plan: TaskPlan, id: string, step: SeriesStep): void => {
  if (step.next_task_id === null) for (const task of step.withdrawn) withdrawTask(plan, task)
  else repeatTree(plan, plannedTask(plan, id), step.next_task_id, step.next)
}

/** The subtasks are repeated as they are, but open. Those of the closed task that are open will not be done any more. */
const repeatTree = (plan: TaskPlan, task: PlannedTask, nextId: string, next: NextOccurrence): void => {
  const subtasks = liveSubtasks(plan.tasks, task.id)
  const ids = new Map([[task.id, nextId], ...subtasks.map(({ id }) => [id, newId()] as const)])
  const zoneOf = ({ owner_id }: PlannedTask) => plan.facts.users.get(owner_id)?.time_zone ?? defaultTimeZone
  repeatTask(plan, task, nextId, { ...seriesOf(next), ...datesOfNext(task, next, zoneOf(task)) })
  for (const subtask of subtasks) {
    const dates = shiftedDates(subtask, next, zoneOf(subtask))
    const parent_id = ids.get(subtask.parent_id ?? task.id) ?? nextId
    repeatTask(plan, subtask, ids.get(subtask.id) ?? newId(), { ...noSeries, ...dates, parent_id })
    if (isOpen(subtask.status)) takeAlong(plan, subtask, { status: 'cancelled' })
  }
}
