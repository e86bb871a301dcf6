import type { TransactionContext } from '../../db/statements/context.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { recordTagged, recordUntagged } from '../../db/shared/record-event.ts'
import { recordTagsOfNew, recordTaskEvents, type TaskEvent } from '../../db/tasks/record-events.ts'
import { moveReminders, remindOfCopies } from '../../db/tasks/reminders.ts'
import { followCopies, followTasks } from '../../db/tasks/followers.ts'
import {
  type LockedTask,
  type LockedReferences,
  lockReferences,
  type TaskReferences,
} from '../../db/tasks/locks.ts'
import {
  addNamedTags,
  deleteWithdrawn,
  type InsertedTask,
  insertTasks,
  type NamedTag,
  redeliverBlocked,
  type UpdatedTask,
  updateTasks,
} from '../../db/tasks/rows.ts'
import { addLinks, removeLinks } from '../../db/tasks/tag-links.ts'
import {
  type Authorized,
  type Principal,
  type Relation,
  relationsToTask,
} from '../../domain/shared/permissions.ts'
import { maxMovedSubtasks } from '../../domain/tasks/subtasks.ts'
import {
  type Completion,
  completionWith,
  hasValue,
  recordedFields,
  type TaskFields,
  taskFields,
} from '../../domain/tasks/fields.ts'
import { shownRecurrence } from '../../domain/tasks/series.ts'
import { problems } from '../../problems/problems.ts'
import { isOpen, type SubtaskChange, subtaskChanges, subtasksOf } from '../../domain/tasks/trees.ts'

/**
 * Writes of tasks: a request locks and reads what it names, plans its changes in memory, where each one sees those before it, and writes
 * them all at once. A request about one task plans one change. The top of db/routines.sql lists what triggers add to it.
 */

/** A task as it is after the changes that were planned. */
export interface PlannedTask extends Omit<LockedTask, 'deleted_at'> {
  readonly completion: Completion
  readonly isTrashed: boolean
  /** Sorted, if tags are written. */
  readonly tagIds: readonly string[]
}

export interface TaskPlan {
  readonly principal: Principal
  readonly facts: LockedReferences
  /** The tasks that were read. */
  readonly before: ReadonlyMap<string, PlannedTask>
  /** All tasks, as they are after the changes so far. */
  readonly tasks: Map<string, PlannedTask>
  /** Whether the tasks that may leave their place have more subtasks than can be written at once: not all of them were read. */
  readonly hasTooManySubtasks: boolean
  /** The tags that new tasks get by name. */
  readonly namedTags: NamedTag[]
  /** The tasks that new ones repeat, by the ids of these. */
  readonly repeats: Map<string, PlannedTask>
  /** Tasks that were created as the next occurrence, and are deleted as if they never had been. */
  readonly withdrawn: Set<string>
  readonly now: Date
}

/** A planned task, and what the caller is to it. */
export type RelatedTask = PlannedTask & { readonly relations: readonly Relation[] }

/** Locks and reads what a request names. */
export const openPlan = async (
  tx: TransactionContext<Principal>,
  references: TaskReferences,
): Promise<TaskPlan> => {
  const facts = await lockReferences(tx, references)
  const tasks = [...facts.tasks.values()].map((task) => planned(task, facts.links.get(task.id) ?? []))
  const before = new Map(tasks.map((task) => [task.id, task]))
  const roots = [
    ...(references.roots ?? []),
    ...(references.closing ?? []).flatMap((id) => treesOfSeries(facts, id)),
  ]
  const below = new Set(roots.flatMap((root) => subtasksOf(tasks, root)))
  return {
    principal: tx.principal,
    facts,
    before,
    tasks: new Map(before),
    hasTooManySubtasks: below.size > maxMovedSubtasks,
    namedTags: [],
    repeats: new Map(),
    withdrawn: new Set(),
    now: new Date(),
  }
}

/** The trees that closing or reopening a task writes. */
const treesOfSeries = ({ tasks }: LockedReferences, id: string): readonly string[] => {
  const task = tasks.get(id)
  if (task === undefined || task.series_id === null) return []
  return task.next_task_id === null ? [id] : [id, task.next_task_id]
}

const planned = ({ deleted_at, ...task }: LockedTask, tagIds: readonly string[]): PlannedTask => ({
  ...task,
  tagIds,
  completion: task.status === 'done' ? 'before' : 'never',
  isTrashed: deleted_at !== null,
})

/** A task of the plan with what the caller is to it; null if there is none. */
export const relatedTask = (plan: TaskPlan, id: string): RelatedTask | null => {
  const task = plan.tasks.get(id)
  if (task === undefined) return null
  const { projects, users } = plan.facts
  const project = task.project_id === null ? null : projects.get(task.project_id)
  const isListLive = (project === null ? users.get(task.owner_id) : project)?.deleted_at === null
  const access = { ...task, role: project?.role ?? null, isListLive }
  return { ...task, relations: relationsToTask(plan.principal, access) }
}

/** The version that a task of the plan has after the changes so far. */
export const versionIn = (plan: TaskPlan, id: string): number => plannedTask(plan, id).version

/** A task that the plan has. */
export const plannedTask = (plan: TaskPlan, id: string): PlannedTask => {
  const task = plan.tasks.get(id)
  if (task === undefined) throw new Error('The plan has no such task')
  return task
}

/**
 * The subtasks of a task, which are few enough to be written with it. If those of all tasks of the request together are too many, not
 * all were read, and each task with subtasks is refused.
 *
 * @throws Problem 409
 */
export const expectFewSubtasks = (
  plan: TaskPlan,
  { id, subtask_count }: PlannedTask,
): readonly PlannedTask[] => {
  const live = [...plan.tasks.values()].filter(({ isTrashed }) => !isTrashed)
  const subtasks = subtasksOf(live, id)
  if (plan.hasTooManySubtasks && (subtasks.length > 0 || subtask_count > 0)) throw problems.tooManySubtasks()
  return subtasks
}

/** Plans a new task. The caller may create tasks in its place. */
export const addTask = (plan: TaskPlan, id: string, fields: TaskFields, tagIds: readonly string[]): void => {
  const completion = completionWith(fields.status, 'never')
  plan.tasks.set(id, {
    ...fields,
    id,
    version: 1,
    side_changes: 0,
    subtask_count: 0,
    has_reminders: false,
    completion,
    isTrashed: false,
    tagIds: tagIds.toSorted(),
  })
}

/** Plans a new task that repeats another one. It was not made from the record of another system that that one was made from. */
export const repeatTask = (
  plan: TaskPlan,
  repeated: PlannedTask,
  id: string,
  change: Partial<TaskFields>,
): void => {
  plan.repeats.set(id, repeated)
  plan.tasks.set(id, {
    ...repeated,
    status: 'todo',
    completion: 'never',
    subtask_count: 0,
    has_reminders: false,
    external_source: null,
    external_id: null,
    ...change,
    id,
    version: 1,
    side_changes: 0,
  })
}

/** Plans that a task which repeats another one is deleted permanently. */
export const withdrawTask = (plan: TaskPlan, { id }: PlannedTask): void => {
  if (plan.repeats.delete(id)) plan.tasks.delete(id)
  else {
    takeAlong(plan, plannedTask(plan, id), { isTrashed: true })
    plan.withdrawn.add(id)
  }
}

type Changeable = Authorized<
  'task.change' | 'task.move' | 'task.delete' | 'task_tag.change' | 'trash.restore',
  RelatedTask
>

/** Plans a change of a task. Its version grows only if it changes something. */
export const changeTask = (
  plan: TaskPlan,
  { id }: Changeable,
  change: Partial<TaskFields & Pick<PlannedTask, 'isTrashed' | 'tagIds'>>,
): void => changePlanned(plan, id, change)

/** Plans that a subtask goes where its parent goes. */
export const takeAlong = (
  plan: TaskPlan,
  { id }: PlannedTask,
  change: Partial<TaskFields & Pick<PlannedTask, 'isTrashed'>>,
): void => changePlanned(plan, id, change)

const changePlanned = (plan: TaskPlan, id: string, change: Partial<PlannedTask>): void => {
  const task = plannedTask(plan, id)
  const after = { ...task, ...change, id }
  if (isEqual(task, after)) return
  const completion = completionWith(after.status, task.completion)
  plan.tasks.set(id, { ...after, completion, version: task.version + 1 })
}

const isEqual = (one: PlannedTask, other: PlannedTask): boolean =>
  taskFields.every((field) => one[field] === other[field]) &&
  one.isTrashed === other.isTrashed &&
  one.tagIds.join() === other.tagIds.join()

/**
 * Writes what was planned, with the events, and what follows from it. The statements are sent in this order, before the first answer:
 * tags change while the task still has its viewers, whom triggers count for each tag, and events read what was written.
 */
export const writePlan = (tx: TransactionContext<Principal>, plan: TaskPlan): Promise<void> | null =>
  isEmpty(plan) ? null : write(tx, plan)

const isEmpty = ({ before, tasks, namedTags, withdrawn }: TaskPlan): boolean =>
  namedTags.length === 0 &&
  withdrawn.size === 0 &&
  [...tasks.values()].every((task) => task === before.get(task.id))

const write = async (tx: TransactionContext<Principal>, plan: TaskPlan): Promise<void> => {
  const { before, tasks, namedTags, repeats } = plan
  const added = [...tasks.values()].filter(({ id }) => !before.has(id))
  const requested = added.filter(({ id }) => !repeats.has(id))
  const counts = subtaskChanges(before, tasks)
  const changes = [...before.values()].flatMap((present): readonly Change[] => {
    const task = tasks.get(present.id) ?? present
    const counted = counts.get(task.id)
    return task === present && counted === undefined ? [] : [{ before: present, task, counted }]
  })
  const linked = changes.flatMap(({ before: { tagIds }, task }) =>
    linksTo(task, without(task.tagIds, tagIds)),
  )
  const unlinked = changes.flatMap(({ before: { tagIds }, task }) =>
    linksTo(task, without(tagIds, task.tagIds)),
  )
  const addedLinks = added.flatMap((task) => linksTo(task, task.tagIds))
  const updates = changes.map(updateOf)
  const unblocking = changes.flatMap(({ before: present, task }) =>
    isBlocking(present) === isBlocking(task) ? [] : [task.id],
  )
  const events = [
    ...requested.flatMap(creationEvents),
    ...changes.flatMap(changeEvent),
    ...[...repeats].flatMap(([id, repeated]) => repetitionEvents(tasks, repeated, id)),
  ]
  const followers = [...requested.flatMap(followersOfNew(plan)), ...changes.flatMap(newFollowers)]
  const recurred = [...repeats].flatMap(([id, repeated]) => recurrenceEvent(tasks, repeated, id))
  const copies = [...repeats].map(([to, { id: from }]) => ({ from, to }))
  const redated = redatedIn(changes)
  const tagged = new Set([
    ...addedLinks.map(({ taskId }) => taskId),
    ...namedTags.map(({ task_id }) => task_id),
  ])
  await pipeline(tx.db, {
    added: () =>
      ifAny(added, () =>
        insertTasks(
          tx,
          added.map((task) => insertionOf(task, counts.get(task.id))),
        ),
      ),
    removedLinks: () => ifAny(unlinked, () => removeLinks(tx, unlinked)),
    links: () => ifAny([...addedLinks, ...linked], () => addLinks(tx, [...addedLinks, ...linked])),
    namedTags: () => ifAny(namedTags, () => addNamedTags(tx, namedTags)),
    updates: () => ifAny(updates, () => updateTasks(tx, updates)),
    unblocked: () => ifAny(unblocking, () => redeliverBlocked(tx, unblocking)),
    events: () => ifAny(events, () => recordTaskEvents(tx, events)),
    tags: () => ifAny([...tagged], () => recordTagsOfNew(tx, [...tagged])),
    recurrences: () => ifAny(recurred, () => recordTaskEvents(tx, recurred)),
    tagged: () => ifAny(linked, () => recordTagged(tx, linked)),
    untagged: () => ifAny(unlinked, () => recordUntagged(tx, unlinked)),
    followers: () => ifAny(followers, () => followTasks(tx, followers)),
    followersOfCopies: () => ifAny(copies, () => followCopies(tx, copies)),
    remindersOfCopies: () => ifAny(copies, () => remindOfCopies(tx, copies, plan.now)),
    reminders: () => ifAny([...redated.due, ...redated.start], () => moveReminders(tx, redated, plan.now)),
    withdrawn: () => ifAny([...plan.withdrawn], () => deleteWithdrawn(tx, [...plan.withdrawn])),
  })
}

const ifAny = (items: readonly unknown[], write: () => Promise<void>): Promise<void> | null =>
  items.length === 0 ? null : write()

/** Whether the tasks that wait for it are blocked. */
const isBlocking = ({ status, isTrashed }: PlannedTask): boolean => !isTrashed && isOpen(status)

const without = (ids: readonly string[], others: readonly string[]): readonly string[] =>
  ids.filter((id) => !others.includes(id))

const linksTo = ({ id }: { readonly id: string }, tagIds: readonly string[]) =>
  tagIds.map((tagId) => ({ taskId: id, tagId }))

const noSubtasks: SubtaskChange = { subtasks: 0, open_subtasks: 0 }

const insertionOf = (task: PlannedTask, counted = noSubtasks): InsertedTask => ({
  ...task,
  is_trashed: task.isTrashed,
  ...counted,
})

/** A new task can be deleted with its parent by the same request. */
const creationEvents = (task: PlannedTask): readonly TaskEvent[] => {
  const values = recordedFields.filter((name) => hasValue(task, name))
  const created = {
    ...recordedTask(task),
    type: 'task.created',
    before: {},
    after: recordedValues(task, values),
  } as const
  return task.isTrashed
    ? [created, { ...recordedTask(task), type: 'task.deleted', before: {}, after: {} }]
    : [created]
}

/** `recurred_from` keeps its assignee from being notified. */
const repetitionEvents = (
  tasks: TaskPlan['tasks'],
  repeated: PlannedTask,
  id: string,
): readonly TaskEvent[] => {
  const task = tasks.get(id)
  if (task === undefined) return []
  const [created, ...others] = creationEvents(task)
  return created === undefined
    ? []
    : [{ ...created, after: { ...created.after, recurred_from: repeated.id } }, ...others]
}

/** Said of the task that was closed, after all tasks of the next occurrence exist. */
const recurrenceEvent = (
  tasks: TaskPlan['tasks'],
  { id, series_id }: PlannedTask,
  nextId: string,
): readonly TaskEvent[] => {
  const [closed, next] = [tasks.get(id), tasks.get(nextId)]
  if (closed === undefined || next === undefined || series_id === null) return []
  const { occurrence_number, occurrence_at, occurrence_on } = next
  const after = { occurrence_number, occurrence_at, occurrence_on }
  return [{ ...recordedTask(closed), type: 'task.recurred', resource_id: nextId, before: {}, after }]
}

const recordedTask = ({
  id,
  project_id,
  owner_id,
  assignee_id,
}: Pick<PlannedTask, 'id' | keyof TaskFields>) => ({
  task_id: id,
  project_id,
  owner_id,
  assignee_id,
})

interface Change {
  readonly before: PlannedTask
  readonly task: PlannedTask
  /** How its subtasks change, if they do. Its version stays. */
  readonly counted: SubtaskChange | undefined
}

const updateOf = ({ before, task, counted }: Change): UpdatedTask => {
  const { isTrashed, tagIds: _, has_reminders: __, description, metadata, version, ...fields } = task
  return {
    ...fields,
    ...(description !== before.description && { description }),
    ...(metadata !== before.metadata && { metadata }),
    is_trashed: isTrashed,
    versions: version - before.version,
    side_changes: counted === undefined ? 0 : 1,
    ...(counted ?? noSubtasks),
  }
}

/** The tasks with reminders whose due dates and starts change. */
const redatedIn = (changes: readonly Change[]) => {
  const those = (isChanged: (one: PlannedTask, other: PlannedTask) => boolean) =>
    changes.flatMap(({ before, task }) => (before.has_reminders && isChanged(before, task) ? [task.id] : []))
  return {
    due: those((one, other) => one.due_at !== other.due_at || one.due_on !== other.due_on),
    start: those((one, other) => one.start_at !== other.start_at || one.start_on !== other.start_on),
  }
}

/** A change of tags alone has no event of the task itself. */
const changeEvent = ({ before, task }: Change): readonly TaskEvent[] => {
  const changed = recordedFields.filter((name) => task[name] !== before[name])
  const isMovedToOrFromTrash = before.isTrashed !== task.isTrashed
  if (changed.length === 0 && !isMovedToOrFromTrash) return []
  const type = isMovedToOrFromTrash ? (task.isTrashed ? 'task.deleted' : 'task.restored') : 'task.updated'
  const values = { before: recordedValues(before, changed), after: recordedValues(task, changed) }
  return [{ ...recordedTask(task), type, ...values }]
}

/** Values as the contract has them, except that the fields of an occurrence have the names of their columns. */
const recordedValues = (task: TaskFields, names: typeof recordedFields) =>
  Object.fromEntries(names.map((name) => [name, name === 'recurrence' ? shownRecurrence(task) : task[name]]))

/** The creator, the owner and the assignee follow a new task. */
const followersOfNew =
  ({ principal }: TaskPlan) =>
  ({ id, owner_id, assignee_id }: PlannedTask) =>
    [...new Set([principal.userId, owner_id, assignee_id])].flatMap((userId) =>
      userId === null ? [] : [{ taskId: id, userId }],
    )

/** So do users to whom it is given. */
const newFollowers = ({ before, task: { id, owner_id, assignee_id } }: Change) => [
  ...(owner_id === before.owner_id ? [] : [{ taskId: id, userId: owner_id }]),
  ...(assignee_id === null || assignee_id === before.assignee_id
    ? []
    : [{ taskId: id, userId: assignee_id }]),
]
