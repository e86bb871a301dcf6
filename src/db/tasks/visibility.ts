import { allowsTask } from '../access/permissions.ts'
import type { StatementContext } from '../statements/context.ts'
import { query } from '../statements/statement.ts'
import { aliasedTable, sql } from '../schema/drizzle.ts'
import { tasks } from '../schema/tables.ts'

const task = aliasedTable(tasks, 'task')

const checkTask = query(
  'tasks.check_visible',
  { id: 'uuid' },
  {},
  (p) => sql`
    select from tasks task where ${task.id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

/** Whether the caller sees a task. */
export const isTaskVisible = async (ctx: StatementContext, id: string): Promise<boolean> =>
  (await checkTask(ctx, { id })).length > 0
