import { rangeOperators } from '../shared/dates.ts'
import type { TaskExpansion } from '../shared/expansions.ts'
import type { CalendarFeed } from '../shared/feeds.ts'
import { parseSort, type SortBy } from '../shared/sort.ts'
import {
  type FilterContext,
  readTaskCondition,
  searchFor,
  type TaskCondition,
  timeCondition,
} from './condition.ts'

/** The query parameters of a task list, named as in the contract, without the paging parameters. */
export interface TaskListQuery {
  readonly status?: readonly string[]
  readonly priority?: readonly string[]
  readonly owner_id?: readonly string[]
  readonly assignee_id?: readonly string[]
  /** Ids, or `none` for personal tasks. */
  readonly project_id?: readonly string[]
  /** Ids, or `none` for tasks without a section. */
  readonly section_id?: readonly string[]
  /** Ids, or `none` for tasks without a parent. */
  readonly parent_id?: readonly string[]
  readonly tag_id?: readonly string[]
  readonly tag_match?: 'any' | 'all'
  readonly untagged?: boolean
  readonly has_attachments?: boolean
  readonly is_blocked?: boolean
  readonly overdue?: boolean
  readonly recurring?: boolean
  readonly series_id?: string
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

const taskSortFields = [
  'created_at',
  'updated_at',
  'due',
  'start',
  'completed_at',
  'priority',
  'status',
  'title',
  'position',
] as const
export type TaskSortField = (typeof taskSortFields)[number]

/** Other names of sort fields. */
const synonyms: Readonly<Record<string, TaskSortField>> = { due_at: 'due', start_at: 'start' }

/** A parsed task list query. */
export interface TaskList {
  /** Only tasks that this user owns or is assigned to; null for the caller. */
  readonly userId: string | null
  /** Only tasks of this project, which the caller must be able to see; null for all tasks that they can see. */
  readonly projectId: string | null
  /** Null for no condition. */
  readonly condition: TaskCondition | null
  /** Null for the default, newest first. */
  readonly order: readonly SortBy<TaskSortField>[] | null
  /** A tsquery. Tasks whose titles match come first. Null if `order` is set. */
  readonly titleWords: string | null
  readonly expand: readonly TaskExpansion[]
  /** Whether to list all tasks of the installation, not only the caller's. */
  readonly all: boolean
}

/**
 * Parses a list query; null if it sorts by a field twice. `userId` and `projectId` restrict the list to one user or project.
 *
 * @throws FilterError
 */
export const taskList = (
  query: TaskListQuery,
  context: FilterContext,
  { userId = null, projectId = null }: Partial<Pick<TaskList, 'userId' | 'projectId'>> = {},
): TaskList | null => {
  const { filter = '', sort, q, expand = [], all = false } = query
  const order = sort === undefined ? undefined : parseSort(sort, taskSortField)
  if (order === null) return null
  const search = q === undefined ? null : searchFor(q)
  const conditions = [readTaskCondition(filter, context), search, ...parameterConditions(query, context)]
  return {
    userId,
    projectId,
    condition: allOf(conditions.filter((condition) => condition !== null)),
    order: order ?? null,
    titleWords: order === undefined && search?.kind === 'search' ? search.words : null,
    expand,
    all,
  }
}

const taskSortField = (name: string): TaskSortField | undefined =>
  synonyms[name] ?? taskSortFields.find((field) => field === name)

const allOf = (operands: readonly TaskCondition[]): TaskCondition | null => {
  const [first, ...others] = operands
  return first === undefined || others.length === 0 ? (first ?? null) : { kind: 'and', operands }
}

const not = (operand: TaskCondition): TaskCondition => ({ kind: 'not', operand })

const oneOf = (
  field:
    | 'status'
    | 'priority'
    | 'owner_id'
    | 'assignee_id'
    | 'project_id'
    | 'section_id'
    | 'parent_id'
    | 'series_id',
  values: readonly string[],
): TaskCondition => ({ kind: 'one_of', field, values: [...new Set(values)] })

/** Tasks in one of these projects or sections, or below one of these parents. `none` matches tasks without one. */
const isInOneOf = (
  field: 'project_id' | 'section_id' | 'parent_id',
  values: readonly string[],
): TaskCondition => {
  const ids = values.filter((id) => id !== 'none')
  const isIn = oneOf(field, ids)
  if (ids.length === values.length) return isIn
  const isInNone = not({ kind: 'present', field })
  return ids.length === 0 ? isInNone : { kind: 'or', operands: [isInNone, isIn] }
}

/** Open and past due. */
const isOverdue = (context: FilterContext): TaskCondition => ({
  kind: 'and',
  operands: [
    timeCondition('due', '<', context.now.toISOString(), context),
    oneOf('status', ['todo', 'in_progress']),
  ],
})

/** The conditions of all query parameters except `filter` and `q`. */
const parameterConditions = (query: TaskListQuery, context: FilterContext): readonly TaskCondition[] => {
  const {
    project_id: projects,
    section_id: sections,
    parent_id: parents,
    tag_id: tags,
    tag_match: match = 'any',
  } = query
  const { untagged, has_attachments: attached, is_blocked: blocked, overdue, recurring } = query
  const choices = (['status', 'priority', 'owner_id', 'assignee_id'] as const).flatMap((field) => {
    const values = query[field]
    return values === undefined ? [] : [oneOf(field, values)]
  })
  const ranges = (['due', 'created', 'updated', 'completed'] as const).flatMap((name) =>
    (['after', 'before'] as const).flatMap((end) => {
      const time = query[`${name}_${end}`]
      const field = name === 'due' ? 'due' : (`${name}_at` as const)
      return time === undefined ? [] : [timeCondition(field, rangeOperators[end], time, context)]
    }),
  )
  const hasTags: TaskCondition = { kind: 'has_tags' }
  const isBlocked: TaskCondition = { kind: 'blocked' }
  const recurs: TaskCondition = { kind: 'present', field: 'series_id' }
  return [
    ...choices,
    ...ranges,
    ...(projects === undefined ? [] : [isInOneOf('project_id', projects)]),
    ...(sections === undefined ? [] : [isInOneOf('section_id', sections)]),
    ...(parents === undefined ? [] : [isInOneOf('parent_id', parents)]),
    ...(tags === undefined ? [] : [{ kind: 'tagged_with', match, tags: [...new Set(tags)] } as const]),
    ...(untagged === undefined ? [] : [untagged ? not(hasTags) : hasTags]),
    ...(attached === undefined
      ? []
      : [{ kind: 'number', field: 'attachment_count', operator: attached ? '>' : '=', value: 0 } as const]),
    ...(blocked === undefined ? [] : [blocked ? isBlocked : not(isBlocked)]),
    ...(recurring === undefined ? [] : [recurring ? recurs : not(recurs)]),
    ...(query.series_id === undefined ? [] : [oneOf('series_id', [query.series_id])]),
    ...(overdue === undefined ? [] : [overdue ? isOverdue(context) : not(isOverdue(context))]),
  ]
}

/** The tasks of a calendar feed that are not done, or were closed within 30 days. The contract says so. */
const inCalendar =
  'status = todo OR status = in_progress OR completed_at >= now-30d OR (status = cancelled AND updated_at >= now-30d)'

/** The lists from which a calendar feed is filled: due from now on and before, the nearest first, and without a due date. */
export interface CalendarLists {
  readonly ahead: TaskList
  readonly behind: TaskList
  readonly undated: TaskList
}

/**
 * The lists of a calendar feed. A task that is only an event needs a date.
 *
 * @throws FilterError
 */
export const calendarLists = (
  { filter, kind }: Pick<CalendarFeed, 'filter' | 'kind'>,
  context: FilterContext,
): CalendarLists => {
  const read = (text: string) => readTaskCondition(text, context)
  const listOf = (which: string, order: TaskList['order']): TaskList => ({
    userId: null,
    projectId: null,
    condition: allOf([filter, inCalendar, which].flatMap((text) => read(text) ?? [])),
    order,
    titleWords: null,
    expand: [],
    all: false,
  })
  return {
    ahead: listOf('due >= now', [{ field: 'due', descending: false }]),
    behind: listOf('due < now', [{ field: 'due', descending: true }]),
    undated: listOf(kind === 'event' ? 'NOT due:* AND start:*' : 'NOT due:*', null),
  }
}
