import { listReader, type Principal } from '../domain/permissions.ts'
import type { TaskList, TaskSortField } from '../domain/task-filter.ts'
import { personBranches, type PersonColumn, taskBranches } from './access/permissions.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { parameter } from './engine/parameters.ts'
import type { SortField } from './lists/keyset.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { expandedTaskJson, taskJson } from './read-models.ts'
import { compileCondition, moments, personIn } from './task-condition.ts'
import { priorityRank, statusRank, titleOrder, wordsOfTitle } from './schema/task-order.ts'

const instant = (value: SQL) => ({ value, type: 'instant' }) as const

const sortFields: Readonly<Record<TaskSortField, SortField>> = {
  created_at: createdAt,
  updated_at: { ...instant(sql`item.updated_at`), isNullable: false, isIndexed: true },
  due: { ...instant(moments.due.order), isNullable: true, isIndexed: true },
  start: { ...instant(moments.start.order), isNullable: true, isIndexed: false },
  completed_at: { ...instant(sql`item.completed_at`), isNullable: true, isIndexed: false },
  priority: { value: priorityRank(sql`item.priority`), type: 'int', isNullable: false, isIndexed: false },
  status: { value: statusRank(sql`item.status`), type: 'int', isNullable: false, isIndexed: false },
  title: { value: titleOrder(sql`item.title_folded`), type: 'text', isNullable: false, isIndexed: false },
}

const isInTitle = sql`${wordsOfTitle(sql`item.search`)} @@ ${parameter('title_words', 'text')}::tsquery`

/**
 * A page of the principal's tasks that pass the filter. An administrator gets all tasks they may see only with `all`, and in
 * the list of another user's tasks.
 *
 * @throws TooManyToSort
 */
export const selectTasks = (
  db: Database,
  principal: Principal,
  { userId, condition, order, titleWords, expand, all }: TaskList,
  page: PageRequest,
): Promise<Page> => {
  const isOfOther = userId !== null && userId !== principal.userId
  const reader = listReader(principal, { all: all || isOfOther })
  const person = userId === null && reader.role === 'member' ? personIn(condition, principal.userId) : null
  const columns: readonly PersonColumn[] =
    userId !== null ? ['owner_id', 'assignee_id'] : person === null ? [] : [person]
  const name = userId !== null ? 'user_tasks' : person === null ? 'tasks' : `tasks by ${person}`
  // Administrators see email addresses in their own lists as well.
  const viewer = { is_admin: sql.raw(String(principal.role === 'admin')) }
  return selectPage(
    db,
    {
      name: expand.length > 0 ? `expanded ${name} for ${principal.role}` : name,
      from: sql`tasks item`,
      branches: (caller) =>
        columns.length > 0
          ? personBranches(columns, parameter('user_id', 'uuid'), caller)
          : taskBranches('task.see', reader.role, caller),
      filters: condition === null ? [] : compileCondition(condition),
      sortFields,
      order: order ?? newestFirst,
      ...(titleWords !== null && { rank: isInTitle }),
      json: (row, caller) =>
        expand.length > 0
          ? expandedTaskJson(row, parameter('expand', 'text[]'), { ...caller, ...viewer })
          : taskJson(row),
      values: {
        expand,
        ...(titleWords !== null && { title_words: titleWords }),
        ...(columns.length > 0 && { user_id: userId ?? principal.userId }),
      },
    },
    reader,
    page,
  )
}
