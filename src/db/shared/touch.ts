import { type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'

interface Versioned {
  readonly version: SQLWrapper
  readonly created_at: SQLWrapper
}

interface Revised {
  readonly side_changes: SQLWrapper
  readonly created_at: SQLWrapper
}

/** What every change of what clients can write also sets: a new version, and the time, which is never before the creation. */
export const touched = ({
  version,
  created_at,
}: Versioned): { readonly version: SQL; readonly updated_at: SQL } => ({
  version: sql`${version} + 1`,
  updated_at: touchedAt(created_at),
})

/**
 * What every other change that clients see also sets, such as a count or what a job has done: a new revision, and the time. The version
 * stays, so that nobody who changes the resource meanwhile is refused.
 */
export const touchedBeside = ({
  side_changes,
  created_at,
}: Revised): { readonly side_changes: SQL; readonly updated_at: SQL } => ({
  side_changes: sql`${side_changes} + 1`,
  updated_at: touchedAt(created_at),
})

const touchedAt = (createdAt: SQLWrapper): SQL => sql`greatest(clock_timestamp(), ${createdAt})`

/** How often a resource has changed in all. */
export const revisionOf = ({
  version,
  side_changes,
}: Pick<Versioned, 'version'> & Pick<Revised, 'side_changes'>): SQL<number> =>
  sql<number>`(${version} + ${side_changes})`
