import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { sql } from './engine/drizzle.ts'
import { trashedTaskJson } from './read-models.ts'
import { type Page, type PageRequest, selectPage } from './lists/list.ts'
import {
  allowsTask,
  allowsTaskApart,
  callerOf,
  callerParameters,
  ownerReadByAdmin,
} from './access/permissions.ts'
import { prepareRemoval } from './removal.ts'
import { onlyRow, statement } from './engine/statement.ts'
import {
  changedColumns,
  changeParameters,
  changeTask,
  etagOf,
  type ReadTask,
  readChanged,
  type TaskRow,
} from './tasks.ts'

const task = sql.raw('task')

/** Which part of the trash a list holds. */
export interface TrashFilter {
  /** Everything in the installation, for an administrator. */
  readonly all?: boolean
}

/** A page of the tasks in the trash that the principal may restore, the last deleted one first. */
export const selectTrash = (
  db: Database,
  principal: Principal,
  filter: TrashFilter,
  page: PageRequest,
): Promise<Page> => {
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'trash',
      from: sql`tasks item`,
      seenBecause: (caller) => allowsTaskApart('trash.see', reader.role, caller, sql`item`),
      filters: [],
      sortFields: { deleted_at: { value: sql`item.deleted_at`, type: 'instant', isNullable: false } },
      order: [{ field: 'deleted_at', descending: true }],
      json: (row) => trashedTaskJson(row),
    },
    reader,
    page,
  )
}

const selectVisible = statement(
  { id: 'uuid', ...callerParameters },
  { json: 'text', version: 'int', owner_read_by_admin: 'text?' },
  (p) => sql`
    select ${trashedTaskJson(task)} as json, version, ${ownerReadByAdmin('trash.see', p, task)} as owner_read_by_admin
    from tasks task
    where id = ${p.id} and ${allowsTask('trash.see', p, task)}`,
)

/** One task in the trash, if the principal may bring it back. */
export const selectTrashedTask = async (
  db: Database,
  principal: Principal,
  id: string,
): Promise<Outcome<ReadTask>> => found(onlyRow(await selectVisible(db, { id, ...callerOf(principal) })))

const restore = statement(changeParameters, changedColumns, (p) =>
  changeTask(p, {
    see: 'trash.see',
    allowed: allowsTask('trash.restore', p, sql`target`),
    columns: sql`deleted_at = null`,
  }),
)

/** Takes a task out of the trash, as it was. `ifMatch` holds the ETags that will do, null for any. */
export const restoreTask = async (
  db: Database,
  principal: Principal,
  id: string,
  ifMatch: readonly string[] | null,
): Promise<Outcome<TaskRow>> => {
  const rows = await restore(db, { id, ...callerOf(principal), if_match: ifMatch })
  return readChanged(db, id, onlyRow(rows))
}

/** Deletes a task in the trash for good, with what belongs to it; its files follow through the outbox. */
export const deleteTrashedTask = prepareRemoval({
  table: 'tasks',
  to: 'nowhere',
  see: 'trash.see',
  remove: 'trash.delete',
  allows: allowsTask,
  etag: etagOf,
})

/** Each task takes up to a millisecond, with its attachments and tags. */
const batch = 100

const removeBatch = statement(
  { days: 'int', limit: 'int' },
  { id: 'text' },
  (p) => sql`
    delete from tasks where id in (
      select id from tasks where deleted_at < now() - make_interval(days => ${p.days})
      order by deleted_at limit ${p.limit} for update skip locked
    ) returning id::text`,
)

/** Deletes for good what has been in the trash for more than so many days; files follow through the outbox. */
export const removeOldTrash = async (db: Database, days: number): Promise<void> => {
  let removed = batch
  while (removed === batch) removed = (await removeBatch(db, { days, limit: batch })).length
}
