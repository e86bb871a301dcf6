import { type FieldConflict, fieldConflicts } from '../shared/field-conflicts.ts'
import type { TaskFields, TaskPatch } from './fields.ts'
import { isSameRecurrence, shownRecurrence, type WantedRecurrence } from './series.ts'

/** The values that a request expects fields of a task to have, as the contract has them. */
export type TaskExpectation = Omit<TaskPatch, 'isPut'>

/** The same, with a recurrence that is complete. */
export interface ExpectedTask extends Omit<TaskExpectation, 'recurrence'> {
  readonly recurrence?: WantedRecurrence | null
}

/** The fields of a task that do not have the expected values. */
export const taskConflicts = (
  { recurrence, ...expected }: ExpectedTask,
  task: TaskFields & { readonly tag_ids: readonly string[] },
): readonly FieldConflict[] => [
  ...fieldConflicts<Required<Omit<ExpectedTask, 'recurrence'>>>(expected, task),
  ...(recurrence === undefined || isSameRecurrence(recurrence, task)
    ? []
    : [{ field: 'recurrence', current: shownRecurrence(task) }]),
]
