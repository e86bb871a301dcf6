import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import { allowsTask, taskBranches } from './access/permissions.ts'
import { untilNone } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import type { OpContext } from './engine/context.ts'
import { query, statement } from './engine/statement.ts'
import { deletedAt, lastDeletedFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { isBlocked, trashedTaskJson } from './read-models.ts'
import { retentionTime } from './engine/retention.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'
import { deletableTasks } from './task-deletions.ts'
import type { TaskRow } from './tasks.ts'

const task = sql.raw('task')
const ofTask = columnsOf<'tasks'>(sql.raw('tasks'))
const ofProject = columnsOf<'projects'>(sql.raw('projects'))

/** The filter of the trash. */
export interface TrashFilter {
  /** The trash of the whole installation; administrators only. */
  readonly all?: boolean
}

/** A page of the tasks in the trash that the caller may restore, most recently deleted first. */
export const selectTrash = (
  { db, principal }: OpContext<Principal>,
  filter: TrashFilter,
  page: PageRequest,
): Promise<Page> => {
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'trash',
      from: sql`tasks item`,
      branches: (caller) => taskBranches('trash.see', reader.role, caller),
      filters: [],
      sortFields: { deleted_at: deletedAt },
      order: lastDeletedFirst,
      json: (row, caller) => trashedTaskJson(row, caller),
    },
    reader,
    page,
  )
}

const selectOne = query(
  'trash.select',
  { id: 'uuid' },
  { json: 'text', version: 'int', is_blocked: 'bool' },
  (p) => sql`
    select ${trashedTaskJson(task, p)} as json, version, ${isBlocked(task, p)} as is_blocked
    from tasks task where id = ${p.id} and ${allowsTask('trash.see', p, task)}`,
)

/** One task in the trash, if the caller may restore it. */
export const selectTrashedTask = async (ctx: OpContext, id: string): Promise<Outcome<TaskRow>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

/** Tasks per statement. Each takes up to a millisecond, with its attachments and tags. */
const batch = 100

const removeBatch = statement(
  'trash.remove_batch',
  { days: 'int', limit: 'int' },
  { id: 'text' },
  (p) => sql`
    with ${deletableTasks(
      sql`${ofTask.deleted_at} < ${retentionTime} - make_interval(days => ${p.days}) order by ${ofTask.deleted_at}`,
      p.limit,
    )}
    delete from tasks where id in (select id from deletable) returning id::text`,
)

const purgeProjects = statement(
  'trash.purge_projects',
  { days: 'int' },
  {},
  (p) => sql`
    update projects set ${assignments<'projects'>({ purged_at: sql`now()` })}
    where ${ofProject.deleted_at} < ${retentionTime} - make_interval(days => ${p.days}) and ${ofProject.purged_at} is null`,
)

/**
 * Permanently deletes tasks and projects that have been in the trash for more than `days`. Files are deleted through the queue, and
 * the content of projects in the next round of `purgeDeleted`.
 */
export const removeOldTrash = async (db: Database, days: number, stop: AbortSignal): Promise<void> => {
  await untilNone(async () => (await removeBatch(db, { days, limit: batch })).length, stop)
  await purgeProjects(db, { days })
}
