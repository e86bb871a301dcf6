import type { Database } from './engine/client.ts'
import { expectRow } from './engine/row-statements.ts'
import { statement } from './engine/statement.ts'
import type { Runner } from './engine/transaction.ts'
import { type SQL, sql, type SQLWrapper } from './schema/drizzle.ts'

/**
 * Exports and imports take turns, because both work for minutes: two run at a time in the installation, and one of each user.
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

/** Those that a process works on. */
const running = sql`(
  select requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select user_id from imports where lease_id is not null and leased_until > now()
) running`

/** Whether there is room for another one of a user. */
export const mayRun = (userId: SQLWrapper): SQL => sql`(
  (select count(*) from ${running}) < 2 and not exists (select from ${running} where running.user_id = ${userId}))`
