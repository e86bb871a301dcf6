import { conflictsOf, type DateConflict, replacingOtherKind, type TaskDates } from '../shared/dates.ts'
import {
  type IntegrationFields,
  isEmptyMetadata,
  type Metadata,
  type MetadataPatch,
} from '../shared/integration-fields.ts'
import type { RecurrenceChange, TaskSeries } from './series.ts'
import { positionAtEnd } from '../shared/positions.ts'
import { isEarlier } from '../shared/time-zones.ts'

/** The fields of a task that requests about it set. Instants are RFC 3339 in UTC with milliseconds. */
export interface TaskFields extends Required<TaskDates>, TaskSeries, IntegrationFields {
  readonly title: string
  readonly description: string
  readonly status: string
  readonly priority: string
  readonly owner_id: string
  readonly assignee_id: string | null
  readonly project_id: string | null
  readonly section_id: string | null
  readonly parent_id: string | null
  readonly position: string
}

export const taskFields = [
  'title',
  'description',
  'status',
  'priority',
  'start_at',
  'start_on',
  'due_at',
  'due_on',
  'owner_id',
  'assignee_id',
  'project_id',
  'section_id',
  'parent_id',
  'position',
  'recurrence',
  'series_id',
  'recurrence_anchor',
  'occurrence_number',
  'occurrence_at',
  'occurrence_on',
  'next_task_id',
  'metadata',
  'external_source',
  'external_id',
] as const satisfies readonly (keyof TaskFields)[]

/** Those of them that events record: all that the contract has, which shows those of an occurrence as one. */
export const recordedFields = taskFields.filter((field) => field !== 'recurrence_anchor')

/** Whether a new task has a value in a field. */
export const hasValue = (task: TaskFields, field: keyof TaskFields): boolean =>
  field === 'metadata' ? !isEmptyMetadata(task.metadata) : task[field] !== null

const dateFields = [
  'start_at',
  'start_on',
  'due_at',
  'due_on',
] as const satisfies readonly (keyof TaskDates)[]

/** A new task in a request; instants are RFC 3339. */
export interface NewTask extends TaskDates {
  readonly title: string
  readonly description: string
  readonly status: string
  readonly priority: string
  readonly owner_id?: string
  readonly assignee_id?: string | null
  readonly project_id?: string | null
  readonly section_id?: string | null
  readonly parent_id?: string | null
  readonly recurrence?: RecurrenceChange | null
  readonly metadata?: Metadata
  readonly external_source?: string | null
  readonly external_id?: string | null
  readonly tag_ids?: readonly string[]
  /** Names of tags of the task's project, or of the caller for a personal task. Missing tags are created. */
  readonly tag_names?: readonly string[]
}

/** A merge patch: absent fields are not changed. */
export type TaskPatch = Partial<Omit<NewTask, 'tag_names' | 'metadata'>> & {
  readonly metadata?: MetadataPatch
  /** Whether it has all fields, as PUT does: the present recurrence in it is no change, and metadata is replaced. */
  readonly isPut?: boolean
}

/** The part of a patch that concerns the task alone. */
export type FieldPatch = Omit<TaskPatch, 'tag_ids' | 'recurrence' | 'metadata' | 'isPut'>

/** Where a task is: in a project, or among the personal tasks of its owner. Its parent and its subtasks are in the same place. */
export type Place = Pick<TaskFields, 'project_id' | 'owner_id'>

/** The id that stands for the place of a task: of the project, or of the owner. */
export const placeOf = ({ project_id, owner_id }: Place): string => project_id ?? owner_id

export const isSamePlace = (one: Place, other: Place): boolean => placeOf(one) === placeOf(other)

/**
 * A task after a merge patch. In another project, it is in no section and at the end; in another place, it has no parent; unless the
 * patch says otherwise.
 */
export const patched = <Task extends TaskFields>(task: Task, patch: FieldPatch): Task => {
  const fields = { ...task, ...replacingOtherKind(patch) }
  const changesProject = fields.project_id !== task.project_id
  return {
    ...fields,
    section_id: changesProject && patch.section_id === undefined ? null : fields.section_id,
    parent_id: patch.parent_id === undefined && !isSamePlace(fields, task) ? null : fields.parent_id,
    position: changesProject ? positionAtEnd(null) : task.position,
  }
}

/** When a task was completed: `now` in this request, or `before` it. */
export type Completion = 'never' | 'before' | 'now'

/** The completion of a task that gets a status. A task that was reopened is completed anew. */
export const completionWith = (status: string, present: Completion): Completion => {
  if (status !== 'done') return 'never'
  return present === 'never' ? 'now' : present
}

/** Whether two states of a task differ in a date. */
export const changesDates = (one: TaskFields, other: TaskFields): boolean =>
  dateFields.some((field) => one[field] !== other[field])

/** The contradictions between the dates of a task, in the time zone of its owner: a time and a day are compared by days. */
export const dateConflictsOf = (task: Required<TaskDates>, timeZone: string): readonly DateConflict[] => {
  const conflicts = conflictsOf(task)
  if (conflicts.length > 0) return conflicts
  const isBackwards = isEarlier(task.due_at ?? task.due_on, task.start_at ?? task.start_on, timeZone)
  if (!isBackwards) return []
  return [task.due_on === null ? 'due_at_before_start' : 'due_on_before_start']
}
