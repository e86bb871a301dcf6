import { isLive, type TaskSeries } from './series.ts'
import { maxLevels } from './subtasks.ts'

/** A task in a tree: its parent is another one of the tasks, or none. */
interface Node {
  readonly id: string
  readonly parent_id: string | null
}

/** All tasks below a task, parents first. */
export const subtasksOf = <Task extends Node>(tasks: Iterable<Task>, rootId: string): readonly Task[] => {
  const byParent = Map.groupBy(tasks, ({ parent_id }) => parent_id)
  const found: Task[] = []
  const seen = new Set([rootId])
  for (let level = [rootId]; level.length > 0;) {
    const below = level.flatMap((id) => byParent.get(id) ?? []).filter(({ id }) => !seen.has(id))
    for (const task of below) seen.add(task.id)
    found.push(...below)
    level = below.map(({ id }) => id)
  }
  return found
}

/** The recurring task that a task is, or is below; null if there is none. There is one at most. */
export const recurringRoot = <Task extends Node & TaskSeries>(
  tasks: ReadonlyMap<string, Task>,
  id: string | null,
): Task | null => {
  for (const task of pathUp(tasks, id)) if (isLive(task)) return task
  return null
}

/** Whether a task is another one, or below it. */
export const isInTree = <Task extends Node>(
  tasks: ReadonlyMap<string, Task>,
  id: string,
  rootId: string,
): boolean => pathUp(tasks, id).some((task) => task.id === rootId)

/** A task and those above it, up to the most levels of a tree. */
function* pathUp<Task extends Node>(
  tasks: ReadonlyMap<string, Task>,
  id: string | null,
): Generator<Task, undefined> {
  let task = id === null ? undefined : tasks.get(id)
  for (let above = 0; task !== undefined && above <= maxLevels; above += 1) {
    yield task
    task = task.parent_id === null ? undefined : tasks.get(task.parent_id)
  }
}

/** The number of levels of a task and the tasks below it. */
const levelsFrom = <Task extends Node>(
  byParent: ReadonlyMap<string | null, readonly Task[]>,
  id: string,
): number => 1 + Math.max(0, ...(byParent.get(id) ?? []).map((task) => levelsFrom(byParent, task.id)))

/** Why a task, with its subtasks, cannot become a subtask of another one; null if it can. The tasks form trees. */
export const refusalOfParent = <Task extends Node>(
  tasks: ReadonlyMap<string, Task>,
  movedId: string,
  parentId: string,
): 'parent_cycle' | 'parent_too_deep' | null => {
  let above = 0
  for (
    let id: string | null = parentId;
    id !== null && above <= maxLevels;
    id = tasks.get(id)?.parent_id ?? null
  ) {
    if (id === movedId) return 'parent_cycle'
    above += 1
  }
  const byParent = Map.groupBy(tasks.values(), ({ parent_id }) => parent_id)
  return above + levelsFrom(byParent, movedId) > maxLevels ? 'parent_too_deep' : null
}

/** A task as its parent counts it. */
interface Counted extends Node {
  readonly status: string
  readonly isTrashed: boolean
}

/** By how many the subtasks of a task become more, and the open ones of them. */
export interface SubtaskChange {
  readonly subtasks: number
  readonly open_subtasks: number
}

/**
 * How the counts of parents change between two states of the same tasks. A task counts the subtasks that are not in the trash, and in
 * the trash those that were moved there with it.
 */
export const subtaskChanges = (
  before: ReadonlyMap<string, Counted>,
  after: ReadonlyMap<string, Counted>,
): ReadonlyMap<string, SubtaskChange> => {
  const changes = new Map<string, SubtaskChange>()
  const count = (
    state: ReadonlyMap<string, Counted>,
    { parent_id, status, isTrashed }: Counted,
    sign: 1 | -1,
  ): void => {
    const parent = parent_id === null ? undefined : state.get(parent_id)
    if (parent === undefined || (isTrashed && !parent.isTrashed)) return
    const { subtasks, open_subtasks } = changes.get(parent.id) ?? { subtasks: 0, open_subtasks: 0 }
    const open = isOpen(status) ? sign : 0
    changes.set(parent.id, { subtasks: subtasks + sign, open_subtasks: open_subtasks + open })
  }
  for (const [id, task] of after) {
    const present = before.get(id)
    if (present === task) continue
    if (present !== undefined) count(before, present, -1)
    count(after, task, 1)
  }
  return new Map(
    [...changes].filter(([, { subtasks, open_subtasks }]) => subtasks !== 0 || open_subtasks !== 0),
  )
}

/** Whether a task with a status counts as open. */
export const isOpen = (status: string): boolean => status === 'todo' || status === 'in_progress'
