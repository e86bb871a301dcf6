import type { Database } from '../engine/client.ts'
import { expectRow } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import type { Runner } from '../engine/transaction.ts'
import { isImportBusy, isPending } from './read-models.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { exports, imports } from '../schema/tables.ts'

/**
 * Exports and imports take turns, because both work for minutes: three run at a time in the installation, two of each kind, and one of
 * each user. So one kind never keeps the other waiting. Of users who wait, the one whose exports and imports were worked on least in the
 * last hour goes first.
 */

const lock = statement(
  'running_jobs.lock',
  {},
  { is_ours: 'bool' },
  () => sql`select pg_try_advisory_xact_lock(hashtextextended('exports and imports', 0)) as is_ours`,
)

/** How an export or an import is taken. */
interface Taking<T> {
  /** A row if there may be one to take. It is most often asked when there is none. */
  readonly look: (db: Runner) => Promise<readonly unknown[]>
  readonly take: (transaction: Runner) => Promise<T | null>
}

/**
 * Takes an export or an import, unless another process is taking one. The lock is a statement of its own: the snapshot of `take` is then no
 * older than it, so that `mayRun` counts what the process before has taken.
 */
export const inTurn = async <T>(db: Database, { look, take }: Taking<T>): Promise<T | null> => {
  if ((await look(db)).length === 0) return null
  return db.transaction(
    async (transaction) => (expectRow(await lock(transaction, {})).is_ours ? take(transaction) : null),
    null,
  )
}

/** What runs as a job. */
type JobKind = 'export' | 'import'

/** Those that a process works on. */
const running = sql`(
  select 'export' as kind, requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select 'import', user_id from imports where lease_id is not null and leased_until > now()
) running`

/** Whether there is room for another one of a user. */
export const mayRun = (kind: JobKind, userId: SQLWrapper): SQL => sql`(
  (select count(*) < 3 and count(*) filter (where running.kind = ${sql.raw(`'${kind}'`)}) < 2 from ${running})
  and not exists (select from ${running} where running.user_id = ${userId}))`

const usedExport = aliasedTable(exports, 'used_export')
const usedImport = aliasedTable(imports, 'used_import')

/** How long processes have worked for a user in the last hour. */
export const usedBy = (userId: SQLWrapper): SQL => sql`(
  (select coalesce(sum(${usedExport.renewals}), 0) from exports used_export
    where ${usedExport.requested_by} = ${userId} and (${isPending(usedExport)} or ${usedExport.updated_at} > now() - interval '1 hour'))
  + (select coalesce(sum(${usedImport.renewals}), 0) from imports used_import
    where ${usedImport.user_id} = ${userId} and (${isImportBusy(usedImport)} or ${usedImport.updated_at} > now() - interval '1 hour')))`
