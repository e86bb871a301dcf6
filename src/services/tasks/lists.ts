import { isProjectVisible } from '../../db/projects/rows.ts'
import { selectTasks } from '../../db/tasks/list.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type TaskList, taskList, type TaskListQuery } from '../../domain/tasks/filter.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext } from '../shared/context.ts'
import { expectMayExpand, expectMayListAll } from '../shared/expectations.ts'
import { getUser } from '../accounts/users.ts'

/** A request for a list of tasks. */
interface TaskListRequest {
  readonly filter: TaskListQuery
  /** The value of `now` in a `filter`. */
  readonly asOf: Date
  readonly request: PageRequest
}

/** A page of the tasks that the caller can see. @throws Problem 400, 403 */
export const listTasks = async (ctx: OpContext<Principal>, list: TaskListRequest): Promise<Page> => {
  expectMayListAll(ctx, list.filter)
  return selectTasks(ctx.db, ctx.principal, readList(ctx, list), list.request)
}

/** A page of the tasks of a project. @throws Problem 400, 403, 404 */
export const listProjectTasks = async (
  ctx: OpContext<Principal>,
  projectId: string,
  list: TaskListRequest,
): Promise<Page> => {
  const tasks = readList(ctx, list, { projectId })
  // A page of tasks does not prove it: outside assignees see their tasks, but not the project.
  if (!(await isProjectVisible(ctx, projectId))) throw problems.notFound()
  return selectTasks(ctx.db, ctx.principal, tasks, list.request)
}

/** A page of the tasks that a user owns or is assigned to. @throws Problem 400, 403, 404 */
export const listUserTasks = async (
  ctx: OpContext<Principal>,
  userId: string,
  list: TaskListRequest,
): Promise<Page> => {
  const tasks = readList(ctx, list, { userId })
  await getUser(ctx, userId)
  return selectTasks(ctx.db, ctx.principal, tasks, list.request)
}

/**
 * The list, of all tasks or of those of a project or a user.
 *
 * @throws Problem 400, 403
 */
const readList = (
  ctx: OpContext<Principal>,
  { filter, asOf }: TaskListRequest,
  of: Partial<Pick<TaskList, 'projectId' | 'userId'>> = {},
): TaskList => {
  const list = taskList(filter, { now: asOf, ...ctx.principal }, of)
  if (list === null) throw problems.sortedTwice()
  expectMayExpand(ctx, list)
  return list
}
