import { type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'

interface Versioned {
  readonly version: SQLWrapper
  readonly created_at: SQLWrapper
}

/** What every change that clients see also sets: a new version, and the time, which is never before the creation. */
export const touched = ({
  version,
  created_at,
}: Versioned): { readonly version: SQL; readonly updated_at: SQL } => ({
  version: sql`${version} + 1`,
  updated_at: sql`greatest(clock_timestamp(), ${created_at})`,
})
