import type { TaskExpansion } from '../../domain/shared/expansions.ts'
import type { TaskSeries } from '../../domain/tasks/series.ts'
import { allowsTask } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { ContextPlaceholders, StatementContext, TransactionContext } from '../statements/context.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { expectRow, firstRow } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { expandedTaskJson, isBlocked, taskJson } from '../shared/read-models.ts'
import { revisionOf } from '../shared/touch.ts'
import { aliasedTable, eq, sql, type SQL } from '../schema/drizzle.ts'
import { tasks } from '../schema/tables.ts'

/** A task as JSON text, and the version and revision that this text shows. */
export interface TaskRow {
  readonly json: string
  readonly version: number
  readonly revision: number
  readonly is_blocked: boolean
}

const taskColumns = { json: 'text', version: 'int', revision: 'int', is_blocked: 'bool' } as const

const task = aliasedTable(tasks, 'task')

type P = Placeholders<{ id: 'uuid' }> & ContextPlaceholders

/** Selects a task by its id; ends with a condition. */
const taskWithId = (p: P, json: SQL): SQL => sql`
  select ${json} as json, ${task.version}, ${revisionOf(task)} as revision, ${isBlocked(task, p)} as is_blocked from tasks task where ${task.id} = ${p.id}`

const visibleTask = (p: P, json: SQL): SQL =>
  sql`${taskWithId(p, json)} and ${allowsTask('task.see', p, task)}`

const selectOne = query('tasks.select', { id: 'uuid' }, taskColumns, (p) => visibleTask(p, taskJson(task, p)))

const selectExpanded = query('tasks.select_expanded', { id: 'uuid', expand: 'text[]' }, taskColumns, (p) =>
  visibleTask(p, expandedTaskJson(task, p.expand, p)),
)

/** One task with the expansions in `expand`, if the caller can see it. */
export const selectTask = async (
  ctx: StatementContext,
  taskId: string,
  expand: readonly TaskExpansion[] = [],
): Promise<TaskRow | null> =>
  firstRow(
    expand.length === 0
      ? await selectOne(ctx, { id: taskId })
      : await selectExpanded(ctx, { id: taskId, expand }),
  )

const reread = query('tasks.reread', { id: 'uuid' }, taskColumns, (p) => taskWithId(p, taskJson(task, p)))

/** The columns of a task's series. */
export const seriesColumns = {
  recurrence: tasks.recurrence,
  series_id: tasks.series_id,
  recurrence_anchor: tasks.recurrence_anchor,
  occurrence_number: tasks.occurrence_number,
  occurrence_at: tasks.occurrence_at,
  occurrence_on: tasks.occurrence_on,
  next_task_id: tasks.next_task_id,
}

const selectSeriesOf = builtStatement('tasks.select_series', { id: 'uuid' }, (db, p) =>
  db.select(seriesColumns).from(tasks).where(eq(tasks.id, p.id)),
)

/** The series of a task, whether or not the caller can see it. */
export const selectSeries = async ({ db }: StatementContext, taskId: string): Promise<TaskSeries | null> =>
  firstRow(await selectSeriesOf(db, { id: taskId }))

/** A task that the transaction has written, whether or not the caller can still see it. */
export const viewTask = async (tx: TransactionContext, taskId: string): Promise<TaskRow> =>
  expectRow(await reread(tx, { id: taskId }))
