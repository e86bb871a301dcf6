import { allowsTask } from './access/permissions.ts'
import type { StatementContext } from './engine/context.ts'
import { query } from './engine/statement.ts'
import { columnsOf } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'

const task = sql.raw('task')

const checkTask = query(
  'tasks.check_visible',
  { id: 'uuid' },
  {},
  (p) => sql`
    select from tasks task where ${columnsOf<'tasks'>(task).id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

/** Whether the caller sees a task. */
export const isTaskVisible = async (ctx: StatementContext, id: string): Promise<boolean> =>
  (await checkTask(ctx, { id })).length > 0
