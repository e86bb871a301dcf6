import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import { listReader, type Principal } from '../../domain/shared/permissions.ts'
import { allowsTask, isProjectInTrash, taskBranches } from '../access/permissions.ts'
import { untilNone } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { firstRow } from '../statements/row-statements.ts'
import type { StatementContext } from '../statements/context.ts'
import { query, statement } from '../statements/statement.ts'
import { deletedAt, lastDeletedFirst, selectPage } from '../lists/list.ts'
import { isBlocked, trashedTaskJson } from '../shared/read-models.ts'
import { retentionTime } from '../shared/retention.ts'
import { revisionOf } from '../shared/touch.ts'
import { aliasedTable, sql } from '../schema/drizzle.ts'
import { projects, tasks } from '../schema/tables.ts'
import { deletableTasks } from './deletions.ts'
import type { TaskRow } from './single.ts'

const task = aliasedTable(tasks, 'task')

/** The filter of the trash. */
export interface TrashFilter {
  /** The trash of the whole installation; administrators only. */
  readonly all?: boolean
}

/** A page of the tasks in the trash that the caller may restore, most recently deleted first. */
export const selectTrash = (
  { db, principal }: StatementContext<Principal>,
  filter: TrashFilter,
  page: PageRequest,
): Promise<Page> => {
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'trash',
      table: tasks,
      branches: (caller) => taskBranches('trash.see', reader.role, caller),
      sortFields: { deleted_at: deletedAt },
      order: lastDeletedFirst,
      json: trashedTaskJson,
    },
    reader,
    page,
  )
}

const selectOne = query(
  'trash.select',
  { id: 'uuid' },
  { json: 'text', version: 'int', revision: 'int', is_blocked: 'bool' },
  (p) => sql`
    select ${trashedTaskJson(task, p)} as json, ${task.version}, ${revisionOf(task)} as revision, ${isBlocked(task, p)} as is_blocked
    from tasks task where ${task.id} = ${p.id} and ${allowsTask('trash.see', p, task)}`,
)

/** One task in the trash, if the caller may restore it. */
export const selectTrashedTask = async (ctx: StatementContext, id: string): Promise<TaskRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** Tasks per statement. Each takes up to a millisecond, with its attachments and tags. */
const batch = 100

const removeBatch = statement(
  'trash.remove_batch',
  { days: 'int', limit: 'int' },
  { id: 'text' },
  (p) => sql`
    with ${deletableTasks(
      sql`${tasks.deleted_at} < ${retentionTime} - make_interval(days => ${p.days}) order by ${tasks.deleted_at}`,
      p.limit,
    )}
    delete from tasks where id in (select id from deletable) returning id::text`,
)

const purgeProjects = builtStatement('trash.purge_projects', { days: 'int' }, (db, p) =>
  db
    .update(projects)
    .set({ purged_at: sql`now()` })
    .where(
      sql`${projects.deleted_at} < ${retentionTime} - make_interval(days => ${p.days}) and ${isProjectInTrash(projects)}`,
    ),
)

/**
 * Permanently deletes tasks and projects that have been in the trash for more than `days`. Files are deleted through the queue, and
 * the content of projects in the next round of `purgeDeleted`.
 */
export const removeOldTrash = async (db: Database, days: number, stop: AbortSignal): Promise<void> => {
  await untilNone(async () => (await removeBatch(db, { days, limit: batch })).length, stop)
  await purgeProjects(db, { days })
}
