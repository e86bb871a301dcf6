import type { TaskExpansion } from './expansions.ts'
import { parseSearch, type Search } from './search.ts'
import { parseSort, type SortBy } from './sort.ts'
import { type FilterContext, readTaskCondition, type TaskCondition } from './task-condition.ts'

/** The parameters of a list of tasks, as the contract names them, beside those of its pages. */
export interface TaskListQuery {
  readonly status?: readonly string[]
  readonly priority?: readonly string[]
  readonly owner_id?: readonly string[]
  readonly assignee_id?: readonly string[]
  readonly tag_id?: readonly string[]
  readonly tag_match?: 'any' | 'all'
  readonly untagged?: boolean
  readonly has_attachments?: boolean
  readonly overdue?: boolean
  readonly due_after?: string
  readonly due_before?: string
  readonly created_after?: string
  readonly created_before?: string
  readonly updated_after?: string
  readonly updated_before?: string
  readonly completed_after?: string
  readonly completed_before?: string
  readonly q?: string
  readonly filter?: string
  readonly sort?: string
  readonly expand?: readonly TaskExpansion[]
  readonly all?: boolean
}

/** Which tasks a list holds: those for which everything that is there holds. */
export interface TaskFilter extends Omit<
  TaskListQuery,
  | 'tag_id'
  | 'tag_match'
  | 'untagged'
  | 'has_attachments'
  | 'overdue'
  | 'q'
  | 'filter'
  | 'sort'
  | 'expand'
  | 'all'
> {
  /** Only tasks that this user owns or is assigned. */
  readonly user_id?: string
  readonly any_tag?: readonly string[]
  /** Two at least. */
  readonly all_tags?: readonly string[]
  readonly tagged?: boolean
  readonly attached?: boolean
  readonly overdue?: boolean
  readonly search?: Search
  readonly condition?: TaskCondition
}

export const taskSortFields = [
  'created_at',
  'updated_at',
  'due_at',
  'start_at',
  'completed_at',
  'priority',
  'status',
  'title',
] as const
export type TaskSortField = (typeof taskSortFields)[number]

/** A list of tasks that is asked for. */
export interface TaskList {
  readonly filter: TaskFilter
  /** Null for the usual one: the newest first, of a search those that it finds in titles before the others. */
  readonly order: readonly SortBy<TaskSortField>[] | null
  /** What to bring along with each task. */
  readonly expand: readonly TaskExpansion[]
  /** Everything in the installation, not only what is the caller's own. */
  readonly all: boolean
}

/**
 * The list that a query asks for, null when it sorts by a field twice; `userId` narrows it to one user's tasks.
 *
 * @throws FilterError
 */
export const taskList = (query: TaskListQuery, context: FilterContext, userId?: string): TaskList | null => {
  const {
    tag_id,
    tag_match = 'any',
    untagged,
    has_attachments,
    overdue,
    q,
    filter = '',
    sort,
    expand = [],
    all = false,
    ...rest
  } = query
  const order = sort === undefined ? undefined : parseSort(sort, isTaskSortField)
  if (order === null) return null
  const condition = readTaskCondition(filter, context)
  const tags = tag_id && [...new Set(tag_id)]
  return {
    order: order ?? null,
    expand,
    all,
    filter: {
      ...rest,
      ...(userId !== undefined && { user_id: userId }),
      ...(tags && (tag_match === 'all' && tags.length > 1 ? { all_tags: tags } : { any_tag: tags })),
      ...(untagged !== undefined && { tagged: !untagged }),
      ...(has_attachments !== undefined && { attached: has_attachments }),
      ...(overdue !== undefined && { overdue }),
      ...(q !== undefined && { search: parseSearch(q) }),
      ...(condition && { condition }),
    },
  }
}

const isTaskSortField = (name: string): name is TaskSortField =>
  (taskSortFields as readonly string[]).includes(name)
