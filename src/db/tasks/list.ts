import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import { listReader, type Principal, type Role } from '../../domain/shared/permissions.ts'
import type { TaskList, TaskSortField } from '../../domain/tasks/filter.ts'
import type { AccessBranch } from '../access/branches.ts'
import {
  branchesOfGroup,
  branchesOfProjects,
  type CallerPlaceholders,
  personalBranches,
  personBranches,
  type PersonColumn,
  taskBranches,
} from '../access/permissions.ts'
import type { Database } from '../engine/client.ts'
import { aliasedTable, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { parameter } from '../statements/parameters.ts'
import type { SortField } from '../lists/keyset.ts'
import { createdAt, type ListSource, newestFirst, selectPage } from '../lists/list.ts'
import { calendarTaskJson, expandedTaskJson, taskJson } from '../shared/read-models.ts'
import { compileCondition, dateFields, groupsIn, personIn, projectsIn } from './condition.ts'
import { tasks } from '../schema/tables.ts'
import { priorityRank, statusRank, titleOrder, wordsOfTitle } from '../schema/task-order.ts'

const item = aliasedTable(tasks, 'item')

const instant = (value: SQLWrapper) => ({ value, type: 'instant' }) as const

const sortFields: Readonly<Record<TaskSortField, SortField>> = {
  created_at: createdAt,
  updated_at: { ...instant(item.updated_at), isNullable: false, isIndexed: true },
  due: { ...instant(dateFields.due.order), isNullable: true, isIndexed: true },
  start: { ...instant(dateFields.start.order), isNullable: true, isIndexed: false },
  completed_at: { ...instant(item.completed_at), isNullable: true, isIndexed: false },
  priority: { value: priorityRank(item.priority), type: 'int', isNullable: false, isIndexed: false },
  status: { value: statusRank(item.status), type: 'int', isNullable: false, isIndexed: false },
  position: { value: item.position, type: 'text', isNullable: false, isIndexed: false },
  title: { value: titleOrder(item.title_folded), type: 'text', isNullable: false, isIndexed: false },
}

const isInTitle = sql`${wordsOfTitle(item.search)} @@ ${parameter('title_words', 'text')}::tsquery`

/** The source of a list's tasks. */
interface Scope {
  /** Distinguishes prepared statements. */
  readonly name: string
  readonly branches: (role: Role, caller: CallerPlaceholders) => readonly AccessBranch[]
  readonly values: Readonly<Record<string, unknown>>
}

const personScope = (name: string, columns: readonly PersonColumn[], userId: string): Scope => ({
  name,
  branches: (_role, caller) => personBranches(columns, parameter('user_id', 'uuid'), caller),
  values: { user_id: userId },
})

const projectScope = (ids: readonly string[], hasPersonal = false): Scope => ({
  name: hasPersonal ? 'personal and project_tasks' : 'project_tasks',
  branches: (role, caller) => [
    ...(hasPersonal ? personalBranches(caller) : []),
    ...branchesOfProjects(parameter('project_ids', 'uuid[]'), role, caller),
  ],
  values: { project_ids: ids },
})

const subtaskScope = (ids: readonly string[]): Scope => ({
  name: 'subtasks',
  branches: (_role, caller) => branchesOfGroup(item.parent_id, parameter('parent_ids', 'uuid[]'), caller),
  values: { parent_ids: ids },
})

const seriesScope = (ids: readonly string[]): Scope => ({
  name: 'occurrences',
  branches: (_role, caller) => branchesOfGroup(item.series_id, parameter('series_ids', 'uuid[]'), caller),
  values: { series_ids: ids },
})

const everything: Scope = {
  name: 'tasks',
  branches: (role, caller) => taskBranches('task.see', role, caller),
  values: {},
}

const scopeOf = ({ userId, projectId, condition }: TaskList, reader: Principal): Scope => {
  if (userId !== null) return personScope('user_tasks', ['owner_id', 'assignee_id'], userId)
  if (projectId !== null) return projectScope([projectId])
  const parents = groupsIn(condition, 'parent_id')
  if (parents !== null) return subtaskScope(parents)
  const series = groupsIn(condition, 'series_id')
  if (series !== null) return seriesScope(series)
  const projects = projectsIn(condition)
  if (projects !== null && !(projects.hasPersonal && reader.role === 'admin'))
    return projectScope(projects.ids, projects.hasPersonal)
  const person = reader.role === 'member' ? personIn(condition, reader.userId) : null
  return person === null ? everything : personScope(`tasks by ${person}`, [person], reader.userId)
}

/**
 * A page of the principal's tasks that pass the filter. An administrator gets all tasks they may see only with `all`, and in
 * the list of a project's or another user's tasks.
 *
 * @throws ListTooExpensive
 */
export const selectTasks = (
  db: Database,
  principal: Principal,
  list: TaskList,
  page: PageRequest,
): Promise<Page> => selectTasksAs(db, principal, list, page)

/** The same, with the tasks as `calendarTaskJson` has them. */
export const selectCalendarTasks = (
  db: Database,
  principal: Principal,
  list: TaskList,
  page: PageRequest,
): Promise<Page> => selectTasksAs(db, principal, list, page, { name: 'calendar of', json: calendarTaskJson })

const selectTasksAs = (
  db: Database,
  principal: Principal,
  list: TaskList,
  page: PageRequest,
  as?: Pick<ListSource<TaskSortField, typeof tasks>, 'name' | 'json'>,
): Promise<Page> => {
  const { userId, projectId, condition, order, titleWords, expand, all } = list
  const isOfOther = projectId !== null || (userId !== null && userId !== principal.userId)
  const reader = listReader(principal, { all: all || isOfOther })
  const scope = scopeOf(list, reader)
  // Even without `all`, administrators see email addresses, and blocked tasks by all blockers.
  const viewer = { is_admin: sql.raw(String(principal.role === 'admin')) }
  return selectPage(
    db,
    {
      name: `${as === undefined ? '' : `${as.name} `}${expand.length > 0 ? 'expanded ' : ''}${scope.name} for ${principal.role}`,
      table: tasks,
      columns: sql`${item.id}, ${item.project_id}`,
      branches: (caller) => scope.branches(reader.role, caller),
      filters: condition === null ? [] : compileCondition(condition, principal),
      sortFields,
      order: order ?? newestFirst,
      ...(titleWords !== null && { rank: isInTitle }),
      json:
        as?.json ??
        ((row, caller) =>
          expand.length > 0
            ? expandedTaskJson(row, parameter('expand', 'text[]'), { ...caller, ...viewer }, caller)
            : taskJson(row, { ...caller, ...viewer })),
      values: { expand, ...(titleWords !== null && { title_words: titleWords }), ...scope.values },
    },
    reader,
    page,
  )
}
