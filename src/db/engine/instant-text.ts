import { type SQL, sql } from '../schema/drizzle.ts'

/** RFC 3339 in UTC with milliseconds, the format of all times in the contract. */
export const instantText = (column: SQL): SQL =>
  sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
