import { sql } from '../schema/drizzle.ts'

/**
 * The horizon: the id of the oldest transaction that is still running. All earlier ones have ended, so their rows are visible.
 * PostgreSQL does not expose the order of commits. A reader of changes in the order of transaction ids that stops here misses
 * none.
 */
export const horizon = sql.raw('pg_snapshot_xmin(pg_current_snapshot())')
