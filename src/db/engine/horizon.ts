import { sql } from '../schema/drizzle.ts'

/**
 * Every transaction before it has ended, so whatever these have written can be read. PostgreSQL does not expose the order of commits:
 * who follows changes in the order of their transactions stops here, and misses none.
 */
export const horizon = sql.raw('pg_snapshot_xmin(pg_current_snapshot())')
