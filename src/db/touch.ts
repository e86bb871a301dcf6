import { type SQL, sql, type SQLWrapper } from './schema/drizzle.ts'

/** What every change that clients see also sets: a new version, and the time. */
export const touched = ({
  version,
}: {
  readonly version: SQLWrapper
}): { readonly version: SQL; readonly updated_at: SQL } => ({
  version: sql`${version} + 1`,
  updated_at: sql`clock_timestamp()`,
})
