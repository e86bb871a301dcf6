import { done, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { allowsTask, ownerReadByAdmin } from './access/permissions.ts'
import type { OpContext } from './engine/context.ts'
import { query } from './engine/statement.ts'
import type { Page } from './lists/list.ts'
import { columnsOf } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'

/** A page of items of a task, such as its comments. */
export interface TaskPage {
  readonly page: Page
  /** The owner of the task, if the caller sees it only as an administrator. */
  readonly ownerReadByAdmin: string | null
}

const task = sql.raw('task')

const checkTask = query(
  'tasks.check_visible',
  { id: 'uuid' },
  { owner_read_by_admin: 'text?' },
  (p) => sql`
    select ${ownerReadByAdmin('task.see', p, task)} as owner_read_by_admin
    from tasks task where ${columnsOf<'tasks'>(task).id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

/** Whether the caller sees a task. */
export const isTaskVisible = async (ctx: OpContext, id: string): Promise<boolean> =>
  (await checkTask(ctx, { id })).length > 0

/** A page of items of a task, if the caller sees the task, and the owner if only the administrator role grants that. */
export const pageIfTaskVisible = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: Page,
): Promise<Outcome<TaskPage>> => {
  // Items prove that the caller sees the task, but not by which relation; that matters for administrators only.
  if (page.items !== '[]' && ctx.principal.role !== 'admin') return done({ page, ownerReadByAdmin: null })
  const [row] = await checkTask(ctx, { id: taskId })
  return row === undefined ? missing : done({ page, ownerReadByAdmin: row.owner_read_by_admin })
}
