import type { Outcome } from '../domain/outcome.ts'
import type { Permission, Principal } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { checkedOutcome, ifMatchParameter, readOutcome } from './engine/outcome.ts'
import { callerOf, callerParameters, type CallerPlaceholders } from './access/permissions.ts'
import { purgeBatch } from './purge.ts'
import { onlyRow, statement } from './engine/statement.ts'

/** What moves a row to the trash, or marks it as deleted. */
export const intoTrash = sql.raw('deleted_at = now()')

/** Deletes one row, if the principal may and it still has one of the ETags in `ifMatch`; null stands for any. */
export type Removal = (
  db: Database,
  principal: Principal,
  id: string,
  ifMatch: readonly string[] | null,
) => Promise<Outcome<unknown>>

interface Removable {
  readonly table: 'tasks' | 'tags'
  /** Where the row goes: to the trash, which it can be brought back from, away for good, or to `purge.ts`. */
  readonly to: 'trash' | 'nowhere' | 'purge'
  readonly see: Permission
  readonly remove: Permission
  readonly allows: (permission: Permission, caller: CallerPlaceholders, row: SQL) => SQL
  /** A row's entity tag, without its quotes. */
  readonly etag: (row: SQL) => SQL
}

/**
 * Prepares the deletion of a table's rows. What belongs to a row stays with it in the trash, and goes with it by its
 * foreign keys and triggers.
 */
export const prepareRemoval = ({ table, to, see, remove, allows, etag }: Removable): Removal => {
  const name = sql.raw(table)
  const target = sql`target`
  const removal =
    to === 'nowhere' ? sql`delete from ${name} using` : sql`update ${name} set ${intoTrash} from`
  const purged =
    to === 'purge'
      ? sql`, purged as (
          delete from task_tags where (task_id, tag_id) in (
            select task_id, tag_id from task_tags join removed on removed.id = tag_id
            order by task_id limit ${sql.raw(String(purgeBatch))})
        )`
      : sql``
  const run = statement(
    { id: 'uuid', ...callerParameters, ...ifMatchParameter },
    { outcome: 'text' },
    (p) => sql`
      with target as (
        select * from ${name} target where id = ${p.id} and ${allows(see, p, target)} for update
      ), checked as (
        select id, ${checkedOutcome(allows(remove, p, target), etag(target), p.if_match)} as outcome from target
      ), removed as (
        ${removal} checked where ${name}.id = checked.id and checked.outcome = 'done'
        returning ${name}.id
      )${purged}
      select outcome from checked`,
  )
  return async (db, principal, id, ifMatch) =>
    readOutcome(onlyRow(await run(db, { id, ...callerOf(principal), if_match: ifMatch })))
}
