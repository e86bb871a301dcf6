import { listReader, type Principal } from '../domain/permissions.ts'
import type { Search } from '../domain/search.ts'
import type { TaskFilter, TaskList, TaskSortField } from '../domain/task-filter.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { expandedTaskJson, taskJson } from './read-models.ts'
import type { SortField } from './lists/keyset.ts'
import {
  type Bind,
  type Condition,
  conditionsOf,
  createdAt,
  filterBy,
  filterOneOf,
  filterFlag,
  filterRange,
  type ListSource,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { allowsTask, allowsTaskApart, allowsTaskAs, type CallerPlaceholders } from './access/permissions.ts'
import { contains, eitherIndex, pairsIndex, searchOf, wordsCost, wordsIndex } from './lists/search.ts'
import { parameter } from './engine/parameters.ts'
import { compileCondition, conjunctsOf } from './task-condition.ts'
import { priorityRank, statusRank, titleOrder, wordsOfTitle } from './schema/task-order.ts'

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
  due_after: filterRange('due_at', '>'),
  due_before: filterRange('due_at', '<'),
  created_after: filterRange('created_at', '>'),
  created_before: filterRange('created_at', '<'),
  updated_after: filterRange('updated_at', '>'),
  updated_before: filterRange('updated_at', '<'),
  completed_after: filterRange('completed_at', '>'),
  completed_before: filterRange('completed_at', '<'),
} as const

const searchedWords = sql`${parameter('search_words', 'text')}::tsquery`

const sortFields: Readonly<Record<TaskSortField, SortField>> = {
  created_at: createdAt,
  updated_at: { value: sql`item.updated_at`, type: 'instant', isNullable: false },
  due_at: { value: sql`item.due_at`, type: 'instant', isNullable: true },
  start_at: { value: sql`item.start_at`, type: 'instant', isNullable: true },
  completed_at: { value: sql`item.completed_at`, type: 'instant', isNullable: true },
  priority: { value: priorityRank(sql`item.priority`), type: 'int', isNullable: false },
  status: { value: statusRank(sql`item.status`), type: 'int', isNullable: false },
  title: { value: titleOrder(sql`item.title_folded`), type: 'text', isNullable: false },
}

const isInTitle = sql`${wordsOfTitle(sql`item.search`)} @@ ${searchedWords}`

/** The words are in the title or the description, or all of the text is a part of the title. */
const searchCondition = (search: Search): Condition => {
  const values: Record<string, unknown> = { search_words: search.words }
  const bind: Bind = (type, value) => {
    const name = `search_${Object.keys(values).length}`
    values[name] = value
    return parameter(name, type)
  }
  const title = sql`item.title_folded`
  const inTitle = contains(title, search.part, bind)
  const inTitleIndex = pairsIndex(title, search.part, bind)
  const cost = wordsCost(search.words, bind)
  const [sql_, index] = hasWords(search)
    ? [
        sql`(item.search @@ ${searchedWords} or ${inTitle})`,
        eitherIndex([wordsIndex(search.index, bind), inTitleIndex]),
      ]
    : [inTitle, inTitleIndex]
  return {
    shape: `q ${hasWords(search)} ${search.index !== ''} ${inTitleIndex !== undefined}`,
    sql: sql_,
    values,
    search: searchOf(cost, index),
  }
}

const hasWords = (search: Search): boolean => search.words !== ''

/** The planner takes some milliseconds to put so many tables in order, and seconds for a hundred. */
const mostJoined = 4

/** Carries all of the tags. As an array the tasks are looked up, whereas the planner would rather look at all tasks. */
const carriesAll = (tags: readonly string[]): Condition => ({
  shape: `all of ${tags.length} tags`,
  sql: sql`item.id = any((select ids from carriers)::uuid[])`,
  values: Object.fromEntries(tags.map((tag, n) => [`tag_${n}`, tag])),
})

/**
 * The tasks that carry all of these tags. The index on the links has those of each tag in the order of the tasks, so their
 * join is fast.
 */
const carriersOfAll = (tags: readonly string[]): SQL => {
  const links = tags.map((_, n) => ({ name: sql.raw(`link_${n}`), tag: parameter(`tag_${n}`, 'uuid') }))
  const carriers = chunksOf(links, mostJoined).map((chunk) => {
    const tables = chunk.map(({ name }) => sql`task_tags ${name}`)
    const conditions = chunk.map(({ name, tag }) => sql`${name}.tag_id = ${tag}`)
    return sql`select task_id from ${tables.reduce((joined, table) => sql`${joined} join ${table} using (task_id)`)}
      where ${sql.join(conditions, sql` and `)}`
  })
  return sql`select array(${sql.join(carriers, sql` intersect `)}) as ids`
}

const chunksOf = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size))

/**
 * A page of the principal's tasks that pass the filter. Everything that an administrator may see comes with `all`, and in a
 * list of one user's tasks.
 */
export const selectTasks = (
  db: Database,
  principal: Principal,
  { filter: asked, order, expand, all }: TaskList,
  page: PageRequest,
): Promise<Page> => {
  const { search, condition, user_id: userId, all_tags: allTags, ...filter } = asked
  const reader = listReader(principal, { all: all || userId !== undefined })
  const { name, seenBecause } = reasonsFor(reader, asked)
  // Administrators see addresses in their own lists as well.
  const viewer = { is_admin: sql.raw(String(principal.role === 'admin')) }
  return selectPage(
    db,
    {
      name: expand.length > 0 ? `expanded ${name} for ${principal.role}` : name,
      from: sql`tasks item`,
      seenBecause,
      ...(allTags !== undefined && { shared: () => [sql`carriers`, carriersOfAll(allTags)] as const }),
      filters: [
        ...conditionsOf(filterFields, filter),
        ...(allTags === undefined ? [] : [carriesAll(allTags)]),
        ...(search === undefined ? [] : [searchCondition(search)]),
        ...(condition === undefined ? [] : compileCondition(condition)),
      ],
      sortFields,
      neverBefore: { updated_at: 'created_at', completed_at: 'created_at' },
      order: order ?? newestFirst,
      ...(order === null && search !== undefined && hasWords(search) && { rank: isInTitle }),
      json: (row, caller) =>
        expand.length > 0
          ? expandedTaskJson(row, parameter('expand', 'text[]'), { ...caller, ...viewer })
          : taskJson(row),
      values: { expand, ...(userId !== undefined && { user_id: userId }) },
    },
    reader,
    page,
  )
}

/** Why the principal sees the tasks that pass the filter, and a name for it. */
const reasonsFor = (
  { role, userId }: Principal,
  filter: TaskFilter,
): Pick<ListSource<TaskSortField>, 'name' | 'seenBecause'> => {
  // One's own tasks are all that a member sees.
  if (filter.user_id !== undefined && (role === 'admin' || filter.user_id !== userId))
    return { name: 'user_tasks', seenBecause: usersTasks }
  const relation = role === 'member' ? relationAskedFor(filter, userId) : null
  return relation === null
    ? { name: 'tasks', seenBecause: (caller) => allowsTaskApart('task.see', role, caller, item) }
    : {
        name: `${relation}_tasks`,
        seenBecause: (caller) => [allowsTaskAs('task.see', relation, caller, item)],
      }
}

/**
 * How the user is related to all tasks that pass a filter for what is theirs: it is why they see them, and for what else is
 * not asked. No index finds the tasks that are theirs for two reasons.
 */
const relationAskedFor = (
  { owner_id: owners, assignee_id: assignees, condition }: TaskFilter,
  userId: string,
): 'owner' | 'assignee' | null => {
  const isUser = (id: string): boolean => id === userId
  const equals = (field: 'owner_id' | 'assignee_id'): boolean =>
    condition !== undefined &&
    conjunctsOf(condition).some(
      (part) => part.kind === 'id' && part.field === field && part.operator === '=' && isUser(part.value),
    )
  if (owners?.every(isUser) === true || equals('owner_id')) return 'owner'
  if (assignees?.every(isUser) === true || equals('assignee_id')) return 'assignee'
  return null
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
