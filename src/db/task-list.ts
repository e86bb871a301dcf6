import type { Principal } from '../domain/permissions.ts'
import type { Search } from '../domain/search.ts'
import type { SortBy } from '../domain/sort.ts'
import type { TaskList, TaskSortField } from '../domain/task-filter.ts'
import type { Database } from './client.ts'
import { type SQL, sql } from './drizzle.ts'
import { expandedTaskJson, taskJson } from './json.ts'
import type { SortField } from './keyset.ts'
import {
  type Condition,
  conditionsOf,
  createdAt,
  filterBy,
  filterOneOf,
  filterFlag,
  filterRange,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './list.ts'
import { allowsTask, allowsTaskApart, type CallerPlaceholders } from './permissions.ts'
import { hasPart } from './search.ts'
import { parameter } from './statement.ts'
import { compileCondition } from './task-condition.ts'
import { priorityRank, statusRank, titleOrder } from './task-order.ts'

const item = sql`item`

const carries = (tags: SQL): SQL =>
  sql`exists (select from task_tags link where link.task_id = item.id and link.tag_id = any(${tags}))`

const isOverdue = sql`item.due_at < now() and item.status in ('todo', 'in_progress')`

/** What tasks are filtered by, beside what is searched for. */
const filterFields = {
  status: filterOneOf('text', sql`item.status`),
  priority: filterOneOf('text', sql`item.priority`),
  owner_id: filterOneOf('uuid', sql`item.owner_id`),
  assignee_id: filterOneOf('uuid', sql`item.assignee_id`),
  any_tag: filterBy('uuid[]', carries),
  tagged: filterFlag(sql`exists (select from task_tags link where link.task_id = item.id)`),
  attached: filterFlag(sql`item.attachment_count > 0`, sql`item.attachment_count = 0`),
  overdue: filterFlag(isOverdue, sql`(${isOverdue}) is not true`),
  due_after: filterRange('instant', 'due_at', (value) => sql`item.due_at > ${value}`),
  due_before: filterRange('instant', 'due_at', (value) => sql`item.due_at < ${value}`),
  created_after: filterRange('instant', 'created_at', (value) => sql`item.created_at > ${value}`),
  created_before: filterRange('instant', 'created_at', (value) => sql`item.created_at < ${value}`),
  updated_after: filterRange('instant', 'updated_at', (value) => sql`item.updated_at > ${value}`),
  updated_before: filterRange('instant', 'updated_at', (value) => sql`item.updated_at < ${value}`),
  completed_after: filterRange('instant', 'completed_at', (value) => sql`item.completed_at > ${value}`),
  completed_before: filterRange('instant', 'completed_at', (value) => sql`item.completed_at < ${value}`),
} as const

const searchedWords = sql`${parameter('search_words', 'text')}::tsquery`

/** How well a task matches what is searched for: its words, and those of the title most. */
const relevance: SortField = {
  value: sql`ts_rank(item.search, ${searchedWords})`,
  type: 'real',
  isNullable: false,
}

const sortFields: Readonly<Record<TaskSortField | 'relevance', SortField>> = {
  created_at: createdAt,
  updated_at: { value: sql`item.updated_at`, type: 'instant', isNullable: false },
  due_at: { value: sql`item.due_at`, type: 'instant', isNullable: true },
  start_at: { value: sql`item.start_at`, type: 'instant', isNullable: true },
  completed_at: { value: sql`item.completed_at`, type: 'instant', isNullable: true },
  priority: { value: priorityRank(sql`item.priority`), type: 'int', isNullable: false },
  status: { value: statusRank(sql`item.status`), type: 'int', isNullable: false },
  title: { value: titleOrder(sql`item.title_folded`), type: 'text', isNullable: false },
  relevance,
}

const mostRelevantFirst: readonly SortBy<'relevance'>[] = [{ field: 'relevance', descending: true }]

/** The words are in the title or the description, or all of the text is a part of the title. */
const searchCondition = ({ words, part }: Search): Condition => {
  const hasPartOfTitle = hasPart(sql`item.title_folded`, part)
  if (words === '') return { ...hasPartOfTitle, values: { ...hasPartOfTitle.values, search_words: words } }
  return {
    shape: `words or ${hasPartOfTitle.shape}`,
    sql: sql`(item.search @@ ${searchedWords} or ${hasPartOfTitle.sql})`,
    values: { ...hasPartOfTitle.values, search_words: words },
  }
}

/** The planner takes some milliseconds to put so many tables in order, and seconds for a hundred. */
const mostJoined = 4

/**
 * Carries all of these tags. The index on the links has those of each tag in the order of the tasks, so their join is fast;
 * as an array its tasks are looked up, whereas the planner would rather ask for the tags of one task after the other.
 */
const carriesAll = (tags: readonly string[]): Condition => {
  const links = tags.map((_, n) => ({ name: sql.raw(`link_${n}`), tag: parameter(`tag_${n}`, 'uuid') }))
  const carriers = chunksOf(links, mostJoined).map((chunk) => {
    const tables = chunk.map(({ name }) => sql`task_tags ${name}`)
    const conditions = chunk.map(({ name, tag }) => sql`${name}.tag_id = ${tag}`)
    return sql`select task_id from ${tables.reduce((joined, table) => sql`${joined} join ${table} using (task_id)`)}
      where ${sql.join(conditions, sql` and `)}`
  })
  return {
    shape: `all of ${tags.length} tags`,
    sql: sql`item.id = any(array(${sql.join(carriers, sql` intersect `)}))`,
    values: Object.fromEntries(tags.map((tag, n) => [`tag_${n}`, tag])),
  }
}

const chunksOf = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size))

/** A page of the tasks that the principal sees and that pass the filter. */
export const selectTasks = (
  db: Database,
  principal: Principal,
  { filter: { search, condition, user_id: userId, all_tags: allTags, ...filter }, order, expand }: TaskList,
  page: PageRequest,
): Promise<Page> => {
  // One's own tasks are all that a member sees.
  const isNarrowed = userId !== undefined && (principal.role === 'admin' || userId !== principal.userId)
  return selectPage(
    db,
    {
      name: `${expand.length > 0 ? 'expanded ' : ''}${isNarrowed ? 'user_tasks' : 'tasks'}`,
      from: sql`tasks item`,
      seenBecause: isNarrowed
        ? usersTasks
        : (caller) => allowsTaskApart('task.see', principal.role, caller, item),
      filters: [
        ...conditionsOf(filterFields, filter),
        ...(allTags === undefined ? [] : [carriesAll(allTags)]),
        ...(search === undefined ? [] : [searchCondition(search)]),
        ...(condition === undefined ? [] : compileCondition(condition)),
      ],
      sortFields,
      order: order ?? (search === undefined ? newestFirst : mostRelevantFirst),
      json: (row, caller) =>
        expand.length > 0 ? expandedTaskJson(row, parameter('expand', 'text[]'), caller) : taskJson(row),
      values: { expand, ...(userId !== undefined && { user_id: userId }) },
    },
    principal,
    page,
  )
}

/** The tasks of one user that the caller sees: those that the user owns, and the others that they are assigned. */
const usersTasks = (caller: CallerPlaceholders): readonly SQL[] => {
  const user = parameter('user_id', 'uuid')
  const seen = allowsTask('task.see', caller, item)
  return [
    sql`item.owner_id = ${user} and ${seen}`,
    sql`item.assignee_id = ${user} and item.owner_id <> ${user} and ${seen}`,
  ]
}
