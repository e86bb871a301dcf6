import type { TaskExpansion } from '../domain/expansions.ts'
import { found, type Outcome } from '../domain/outcome.ts'
import { allowsTask } from './access/permissions.ts'
import type { StatementContext, TransactionContext } from './engine/context.ts'
import { query } from './engine/statement.ts'
import { expandedTaskJson, isBlocked, taskJson } from './read-models.ts'
import { aliasedTable, sql } from './schema/drizzle.ts'
import { tasks } from './schema/tables.ts'

/** A task as JSON text, and the version that this text shows. */
export interface TaskRow {
  readonly json: string
  readonly version: number
  readonly is_blocked: boolean
}

const taskColumns = { json: 'text', version: 'int', is_blocked: 'bool' } as const

const task = aliasedTable(tasks, 'task')

const selectOne = query(
  'tasks.select',
  { id: 'uuid' },
  taskColumns,
  (p) => sql`
    select ${taskJson(task, p)} as json, ${task.version}, ${isBlocked(task, p)} as is_blocked
    from tasks task where ${task.id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

const selectExpanded = query(
  'tasks.select_expanded',
  { id: 'uuid', expand: 'text[]' },
  taskColumns,
  (p) => sql`
    select ${expandedTaskJson(task, p.expand, p)} as json, ${task.version}, ${isBlocked(task, p)} as is_blocked
    from tasks task where ${task.id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

/** One task with the expansions in `expand`, if the caller can see it. */
export const selectTask = async (
  ctx: StatementContext,
  taskId: string,
  expand: readonly TaskExpansion[] = [],
): Promise<Outcome<TaskRow>> => {
  const [row] =
    expand.length === 0
      ? await selectOne(ctx, { id: taskId })
      : await selectExpanded(ctx, { id: taskId, expand })
  return found(row)
}

const reread = query(
  'tasks.reread',
  { id: 'uuid' },
  taskColumns,
  (p) => sql`
    select ${taskJson(task, p)} as json, ${task.version}, ${isBlocked(task, p)} as is_blocked from tasks task where ${task.id} = ${p.id}`,
)

/** A task that the transaction has written. */
export const viewTask = async (tx: TransactionContext, taskId: string): Promise<TaskRow> => {
  const [row] = await reread(tx, { id: taskId })
  if (row === undefined) throw new Error('The written task is gone')
  return row
}
