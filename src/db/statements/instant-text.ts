import { type AnyColumn, type GetColumnData, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'

/** RFC 3339 in UTC with milliseconds, the format of all times in the contract. */
export const instantText = <Time extends SQLWrapper>(
  time: Time,
): SQL<Time extends AnyColumn ? GetColumnData<Time> : string | null> =>
  sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
