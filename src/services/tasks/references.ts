import type { TaskReferences } from '../../db/tasks/locks.ts'
import type { TaskTag } from '../../db/shared/record-event.ts'
import type { TaskBatch } from '../../domain/tasks/batch.ts'
import type { TaskExpectation } from '../../domain/tasks/expected.ts'
import type { NewTask, TaskPatch } from '../../domain/tasks/fields.ts'
import type { TaskMove } from './rules.ts'

/** What writes of tasks name, and so have to lock and read. */

const ids = (...values: readonly (string | null | undefined)[]): readonly string[] =>
  values.flatMap((id) => (id == null ? [] : [id]))

/** The caller owns the task by default, and the tags that are created by name. */
export const referencesOfCreation = (task: NewTask, callerId: string): TaskReferences => ({
  users: ids(callerId, task.owner_id, task.assignee_id),
  projects: ids(task.project_id),
  sections: ids(task.section_id),
  tags: task.tag_ids ?? [],
  parents: ids(task.parent_id),
})

export const referencesOfPatch = (
  id: string,
  patch: TaskPatch,
  expected: TaskExpectation = {},
): TaskReferences => {
  const mayLeavePlace = patch.project_id !== undefined || patch.owner_id !== undefined
  const isClosedOrReopened = patch.status !== undefined
  const setsRecurrence = patch.recurrence != null
  return {
    tasks: [id],
    users: ids(patch.owner_id, patch.assignee_id),
    projects: ids(patch.project_id),
    sections: ids(patch.section_id),
    tags: patch.tag_ids ?? [],
    // What is above the task tells whether it is in a tree that recurs.
    parents: ids(patch.parent_id, setsRecurrence || patch.parent_id != null ? id : null),
    // Its subtasks move with it, or tell whether it would become its own subtask and how deep the tree would be.
    roots: mayLeavePlace || patch.parent_id != null || setsRecurrence ? [id] : [],
    closing: isClosedOrReopened ? [id] : [],
    recounts: isClosedOrReopened || patch.parent_id !== undefined || mayLeavePlace,
    startsSeries: setsRecurrence,
    readsDescriptions: patch.description !== undefined || expected.description !== undefined,
    readsTags: patch.tag_ids !== undefined || expected.tag_ids !== undefined,
    toPersonal: patch.project_id === null ? [id] : [],
  }
}

/** `anchor`: the task that it goes next to. */
export const referencesOfMove = (
  id: string,
  { project_id, section_id }: TaskMove,
  anchor: string | null,
): TaskReferences => ({
  tasks: ids(id, anchor),
  projects: ids(project_id),
  sections: ids(section_id),
  roots: project_id === undefined ? [] : [id],
  recounts: project_id !== undefined,
  toPersonal: project_id === null ? [id] : [],
  anchors: section_id === undefined ? ids(anchor) : [],
})

export const referencesOfDeletion = (id: string): TaskReferences => ({
  tasks: [id],
  roots: [id],
  recounts: true,
})

/** A link that is added or removed. */
export const referencesOfLink = ({ taskId, tagId }: TaskTag): TaskReferences => ({
  tasks: [taskId],
  tags: [tagId],
  readsTags: true,
})

export const referencesOfBatch = (
  batch: TaskBatch<NewTask, TaskPatch, TaskExpectation>,
  callerId: string,
): TaskReferences => {
  const { create = [], update = [], tag = [], untag = [] } = batch
  const deleted = (batch.delete ?? []).map(({ task_id }) => referencesOfDeletion(task_id))
  const links = [...tag, ...untag]
  const all = [
    ...create.map((task) => referencesOfCreation(task, callerId)),
    ...update.map(({ task_id, patch, expect }) => referencesOfPatch(task_id, patch, expect)),
    ...deleted,
    ...links.map(({ task_id: taskId, tag_id: tagId }) => referencesOfLink({ taskId, tagId })),
  ] satisfies readonly TaskReferences[]
  const union = (
    name:
      'tasks' | 'parents' | 'roots' | 'closing' | 'users' | 'projects' | 'sections' | 'tags' | 'toPersonal',
  ) => [...new Set(all.flatMap((one: TaskReferences) => one[name] ?? []))]
  const isAny = (name: 'recounts' | 'startsSeries' | 'readsDescriptions' | 'readsTags'): boolean =>
    all.some((one: TaskReferences) => one[name] === true)
  return {
    tasks: union('tasks'),
    parents: union('parents'),
    roots: union('roots'),
    closing: union('closing'),
    users: union('users'),
    projects: union('projects'),
    sections: union('sections'),
    tags: union('tags'),
    toPersonal: union('toPersonal'),
    recounts: isAny('recounts'),
    startsSeries: isAny('startsSeries'),
    readsDescriptions: isAny('readsDescriptions'),
    readsTags: isAny('readsTags'),
  }
}
