import { type SQL, sql, type SQLWrapper } from './schema/drizzle.ts'

/**
 * Exports and imports take turns, because both work for minutes: two run at a time in the installation, and one of each user.
 */

/** The common table `turn`: while `is_ours`, no other process starts an export or an import, until the end of the transaction. */
export const turn = sql`turn as materialized (
  select pg_try_advisory_xact_lock(hashtextextended('exports and imports', 0)) as is_ours
)`

/** Those that a process works on. */
const running = sql`(
  select requested_by as user_id from exports where status = 'running' and leased_until > now()
  union all
  select user_id from imports where lease_id is not null and leased_until > now()
) running`

/** Whether there is room for another one of a user. */
export const mayRun = (userId: SQLWrapper): SQL => sql`(
  (select count(*) from ${running}) < 2 and not exists (select from ${running} where running.user_id = ${userId}))`
