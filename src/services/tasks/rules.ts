import { newId } from '../../db/shared/ids.ts'
import type { DeletableTask } from '../../db/tasks/rows.ts'
import { conflictsOf } from '../../domain/shared/dates.ts'
import type { Preconditions } from '../../domain/shared/entity-tags.ts'
import {
  type Authorized,
  grants,
  type Principal,
  relationsToProject,
} from '../../domain/shared/permissions.ts'
import { positionOfNew } from '../../domain/shared/positions.ts'
import {
  changesDates,
  dateConflictsOf,
  isSamePlace,
  type NewTask,
  patched,
  type Place,
  type TaskFields,
  type TaskPatch,
} from '../../domain/tasks/fields.ts'
import { type ExpectedTask, taskConflicts } from '../../domain/tasks/expected.ts'
import { refusalOfParent, subtasksOf } from '../../domain/tasks/trees.ts'
import { noIntegrationFields } from '../../domain/shared/integration-fields.ts'
import { noSeries } from '../../domain/tasks/series.ts'
import { canonicalName } from '../../domain/shared/text.ts'
import { problems } from '../../problems/problems.ts'
import {
  expectAbsent,
  expectActive,
  expectFields,
  expectKnown,
  expectMatch,
  expectMay,
  expectSeen,
} from '../shared/expectations.ts'
import { expectMetadata, metadataAfter } from '../shared/metadata.ts'
import {
  addTask,
  changeTask,
  expectFewSubtasks,
  type RelatedTask,
  relatedTask,
  takeAlong,
  type TaskPlan,
} from './plan.ts'
import {
  changeOfSeries,
  planSeriesStep,
  refusalOfSeries,
  seriesAfter,
  seriesOfNew,
  seriesStep,
} from './recurrence.ts'

/** What each change of a task requires. A problem plans nothing. */

/** A task that a request writes, and its conditions. */
export interface TaskTarget {
  readonly id: string
  readonly conditions: Preconditions
}

/**
 * Plans a new task with tags.
 *
 * @throws Problem 403, 409, 422
 */
export const planCreation = (
  plan: TaskPlan,
  id: string,
  { tag_ids = [], tag_names = [], recurrence = null, ...fields }: NewTask,
): void => {
  const { principal } = plan
  if (fields.metadata !== undefined) expectMetadata(fields.metadata)
  const parent = fields.parent_id == null ? null : visibleTask(plan, fields.parent_id)
  const task: TaskFields = {
    start_at: null,
    start_on: null,
    due_at: null,
    due_on: null,
    assignee_id: null,
    section_id: null,
    parent_id: null,
    owner_id: principal.userId,
    ...noSeries,
    ...noIntegrationFields,
    ...fields,
    // A subtask is created where its parent is.
    project_id: fields.project_id === undefined ? (parent?.project_id ?? null) : fields.project_id,
    position: positionOfNew(id),
  }
  if (task.owner_id !== principal.userId)
    expectMay('task.create_for_another', { relations: callerAs(principal) })
  expectTarget(plan, task.project_id)
  expectNoConflicts(plan, task)
  expectSection(plan, task.section_id, task.project_id)
  if (task.parent_id !== null) expectParent(plan, { ...task, id }, task.parent_id)
  expectTags(plan, tag_ids)
  expectPerson(plan, task.owner_id, '/owner_id')
  if (task.assignee_id !== null) expectPerson(plan, task.assignee_id, '/assignee_id')
  addTask(plan, id, { ...task, ...seriesOfNew(plan, task, recurrence) }, tag_ids)
  for (const name of tag_names)
    plan.namedTags.push({
      task_id: id,
      id: newId(),
      name,
      canonical_name: canonicalName(name),
      project_id: task.project_id,
    })
}

/**
 * Plans a merge patch.
 *
 * @throws Problem 400, 403, 404, 409, 412, 422
 */
export const planUpdate = (
  plan: TaskPlan,
  { id, conditions, expected = {} }: TaskTarget & { readonly expected?: ExpectedTask | undefined },
  { tag_ids: sentTags, recurrence, metadata: sentMetadata, isPut = false, ...patch }: TaskPatch,
): void => {
  const seen = expectSeen('task.see', liveTask(plan, id))
  const task = expectMay('task.change', seen)
  const { relations: _, ...moved } = patched(task, patch)
  if (moved.owner_id !== task.owner_id) expectMay('task.transfer', seen)
  if (isRegrouped(task, moved)) expectMay('task.move', seen)
  const change = changeOfSeries(plan, seen, moved, recurrence, isPut)
  const metadata = metadataAfter(task.metadata, sentMetadata, isPut)
  expectFields(taskConflicts(expected, { ...task, tag_ids: task.tagIds }))
  expectMatch(conditions, task)
  expectUnarchived(plan, task)
  const after = { ...moved, ...seriesAfter(plan, task, moved, change), metadata }
  if (after.project_id !== task.project_id) expectTarget(plan, after.project_id)
  if (changesDates(task, after)) expectNoConflicts(plan, after, patch)
  if (patch.section_id != null) expectSection(plan, patch.section_id, after.project_id)
  if (patch.parent_id != null && (after.parent_id !== task.parent_id || !isSamePlace(task, after)))
    expectParent(plan, after, patch.parent_id)
  expectTags(plan, sentTags ?? [])
  if (patch.owner_id !== undefined) expectPerson(plan, patch.owner_id, '/owner_id')
  else if (after.project_id === null && task.project_id !== null)
    expectPerson(plan, after.owner_id, '/project_id')
  if (patch.assignee_id != null) expectPerson(plan, patch.assignee_id, '/assignee_id')
  const step = seriesStep(plan, task, after)
  if (!isSamePlace(task, after)) moveSubtasks(plan, task, after)
  const tagIds = sentTags === undefined ? task.tagIds : [...new Set(sentTags)].toSorted()
  changeTask(plan, task, { ...after, tagIds, ...(step !== null && { next_task_id: step.next_task_id }) })
  if (step !== null) planSeriesStep(plan, id, step)
}

/**
 * Plans that a task and its subtasks go to the trash.
 *
 * @throws Problem 403, 404, 409, 412, 422
 */
export const planDeletion = (plan: TaskPlan, { id, conditions }: TaskTarget): void => {
  const task = expectMay('task.delete', expectSeen('task.see', liveTask(plan, id)))
  expectMatch(conditions, task)
  expectUnarchived(plan, task)
  for (const subtask of expectFewSubtasks(plan, task)) takeAlong(plan, subtask, { isTrashed: true })
  changeTask(plan, task, { isTrashed: true })
}

/**
 * Plans that a task gets a tag. Does nothing if it has it. Of the conditions, only If-None-Match applies: to the link.
 *
 * @throws Problem 403, 404, 409, 412
 */
export const planTag = (plan: TaskPlan, { id, conditions }: TaskTarget, tagId: string): void => {
  const seen = expectSeen('task_tag.see', liveTask(plan, id))
  if (!plan.facts.tags.has(tagId)) throw problems.notFound()
  const task = expectMay('task_tag.change', seen)
  expectAbsent(conditions, task.tagIds.includes(tagId))
  expectUnarchived(plan, task)
  changeTask(plan, task, { tagIds: [...new Set([...task.tagIds, tagId])].toSorted() })
}

/**
 * Plans that a task loses a tag.
 *
 * @throws Problem 403, 404, 409, 412
 */
export const planUntag = (plan: TaskPlan, { id, conditions }: TaskTarget, tagId: string): void => {
  const seen = expectSeen('task_tag.see', liveTask(plan, id))
  if (!seen.tagIds.includes(tagId)) throw problems.notFound()
  const task = expectMay('task_tag.change', seen)
  expectMatch(conditions, task)
  expectUnarchived(plan, task)
  changeTask(plan, task, { tagIds: task.tagIds.filter((one) => one !== tagId) })
}

/** The place of a task in a request. At most one of the first three is set. */
export interface TaskMove {
  readonly before?: string
  readonly after?: string
  /** Null for none. By default, the section of the task in `before` or `after`, or the present one within the same project. */
  readonly section_id?: string | null
  /** Null for the personal tasks of the owner. By default, the present project. */
  readonly project_id?: string | null
}

/**
 * Decides where a task goes, and plans that its subtasks go with it. The task itself follows, once its position there is known.
 *
 * @throws Problem 403, 404, 409, 412, 422
 */
export const planMove = (plan: TaskPlan, { id, conditions }: TaskTarget, to: TaskMove): Moved => {
  const task = expectMay('task.move', expectSeen('task.see', liveTask(plan, id)))
  const { project_id = task.project_id } = to
  const isMoved = project_id !== task.project_id
  const place = { project_id, owner_id: task.owner_id }
  expectMatch(conditions, task)
  expectUnarchived(plan, task)
  if (isMoved) expectTarget(plan, project_id)
  expectSection(plan, to.section_id ?? null, project_id)
  if (isMoved && project_id === null) expectPerson(plan, task.owner_id, '/project_id')
  const neighbour = expectNeighbour(plan, task, place, to)
  if (isMoved) moveSubtasks(plan, task, { ...task, project_id })
  const presentSection = isMoved ? null : task.section_id
  const { section_id = neighbour === null ? presentSection : neighbour.section_id } = to
  return { task, place: { project_id, section_id, parent_id: isMoved ? null : task.parent_id } }
}

/** A task that the caller may move, and where it goes. */
interface Moved {
  readonly task: Authorized<'task.move', RelatedTask>
  readonly place: Pick<TaskFields, 'project_id' | 'section_id' | 'parent_id'>
}

/** The task in `before` or `after`: another one in the same place. Null without them. */
const expectNeighbour = (
  plan: TaskPlan,
  { id }: RelatedTask,
  place: Place,
  { before, after }: TaskMove,
): RelatedTask | null => {
  const named = before ?? after
  if (named === undefined) return null
  const pointer = before === undefined ? '/after' : '/before'
  const neighbour = expectKnown('task.see', liveTask(plan, named), { pointer, kind: 'task' })
  if (named === id || !isSamePlace(neighbour, place)) throw problems.unknownReference(pointer, 'task')
  return neighbour
}

/**
 * Plans that a task leaves the trash, with the subtasks that were deleted with it. It loses a parent that it cannot have any more.
 *
 * @throws Problem 403, 404, 409, 412
 */
export const planRestoration = (plan: TaskPlan, { id, conditions }: TaskTarget): void => {
  const task = expectMay('trash.restore', trashedTask(plan, id))
  expectMatch(conditions, task)
  expectUnarchived(plan, task)
  for (const subtask of subtasksOf(plan.tasks.values(), id)) takeAlong(plan, subtask, { isTrashed: false })
  const parent = task.parent_id === null ? null : visibleTask(plan, task.parent_id)
  const keepsParent =
    parent !== null &&
    isSamePlace(parent, task) &&
    refusalOfParent(plan.tasks, id, parent.id) === null &&
    refusalOfSeries(plan, task, parent.id) === null
  changeTask(plan, task, { isTrashed: false, parent_id: keepsParent ? parent.id : null })
}

/**
 * The tasks that are deleted with a task in the trash.
 *
 * @throws Problem 403, 404, 409, 412
 */
export const expectDeletable = (plan: TaskPlan, { id, conditions }: TaskTarget): readonly DeletableTask[] => {
  const task = expectMay('trash.delete', trashedTask(plan, id))
  expectMatch(conditions, task)
  expectUnarchived(plan, task)
  return [...plan.tasks.keys()].map((one) => withId(task, one))
}

const withId = (task: DeletableTask, id: string): DeletableTask => ({ ...task, id })

/** A task in the trash that the caller can see. */
const trashedTask = (plan: TaskPlan, id: string): RelatedTask => {
  const task = relatedTask(plan, id)
  return expectSeen('trash.see', task?.isTrashed === true ? task : null)
}

/** A task that is not in the trash. */
const liveTask = (plan: TaskPlan, id: string): RelatedTask | null => {
  const task = relatedTask(plan, id)
  return task?.isTrashed === false ? task : null
}

/** The same, if the caller can see it. */
const visibleTask = (plan: TaskPlan, id: string): RelatedTask | null => {
  const task = liveTask(plan, id)
  return task !== null && grants('task.see', task.relations) ? task : null
}

const callerAs = ({ role }: Principal) => (role === 'admin' ? (['admin'] as const) : [])

const isRegrouped = (one: TaskFields, other: TaskFields): boolean =>
  one.project_id !== other.project_id ||
  one.section_id !== other.section_id ||
  one.parent_id !== other.parent_id

const expectUnarchived = ({ facts }: TaskPlan, { project_id }: Pick<TaskFields, 'project_id'>): void => {
  const project = project_id === null ? undefined : facts.projects.get(project_id)
  if (project !== undefined) expectActive(project)
}

/** A project that a task gets into: known, one that the caller may edit, and not archived. Null is none. */
const expectTarget = ({ principal, facts }: TaskPlan, id: string | null): void => {
  if (id === null) return
  const project = facts.projects.get(id)
  const related =
    project?.deleted_at === null
      ? { ...project, relations: relationsToProject(principal, project.role) }
      : null
  const known = expectKnown('project.see', related, { pointer: '/project_id', kind: 'project' })
  expectActive(expectMay('project.edit', known))
}

const expectSection = ({ facts }: TaskPlan, id: string | null, projectId: string | null): void => {
  if (id !== null && (projectId === null || facts.sections.get(id)?.project_id !== projectId))
    throw problems.unknownReference('/section_id', 'section')
}

/** The dates of a task do not contradict each other, nor those of the request. */
const expectNoConflicts = (plan: TaskPlan, task: TaskFields, sent: TaskPatch = task): void => {
  const sentConflicts = conflictsOf(sent)
  const timeZone = plan.facts.users.get(task.owner_id)?.time_zone
  // A new owner who does not exist is refused later.
  const conflicts =
    sentConflicts.length > 0 || timeZone === undefined ? sentConflicts : dateConflictsOf(task, timeZone)
  if (conflicts.length > 0) throw problems.conflictingDates(conflicts)
}

const expectParent = (plan: TaskPlan, task: TaskFields & { readonly id: string }, parentId: string): void => {
  const parent = expectKnown('task.see', liveTask(plan, parentId), { pointer: '/parent_id', kind: 'task' })
  if (!isSamePlace(parent, task)) throw problems.parentElsewhere()
  const moved = plan.before.get(task.id)
  // How deep its own tree is can only be told if all of it was read.
  if (moved !== undefined) expectFewSubtasks(plan, moved)
  const live = new Map([...plan.tasks].filter(([, { isTrashed }]) => !isTrashed))
  const refusalByParent = refusalOfSeries(plan, task, parentId)
  if (refusalByParent === 'nested') throw problems.recurrenceNested('/parent_id')
  if (refusalByParent === 'too_large') throw problems.recurringTreeTooLarge('/parent_id')
  const refusal = refusalOfParent(live, task.id, parentId)
  if (refusal === 'parent_cycle') throw problems.parentCycle()
  if (refusal === 'parent_too_deep') throw problems.parentTooDeep()
}

const expectTags = ({ facts }: TaskPlan, ids: readonly string[]): void => {
  const unknown = ids.findIndex((id) => !facts.tags.has(id))
  if (unknown >= 0) throw problems.unknownReference(`/tag_ids/${unknown}`, 'tag')
}

const expectPerson = ({ facts }: TaskPlan, id: string, pointer: string): void => {
  if (facts.users.get(id)?.deleted_at !== null) throw problems.unknownReference(pointer, 'user')
}

const moveSubtasks = (plan: TaskPlan, task: RelatedTask, { project_id, owner_id }: TaskFields): void => {
  for (const subtask of expectFewSubtasks(plan, task))
    takeAlong(plan, subtask, {
      project_id,
      section_id: subtask.project_id === project_id ? subtask.section_id : null,
      owner_id: project_id === null ? owner_id : subtask.owner_id,
    })
}
