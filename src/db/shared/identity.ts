import type { Database } from '../engine/client.ts'
import { statement } from '../statements/statement.ts'
import { sql } from '../schema/drizzle.ts'

/**
 * The identity of a database: the system identifier of its cluster, its OID, and the OID of its table `tasks`. A restored dump
 * is a different database, even on the same server, since its tables are new. A file copy of a whole cluster has the same
 * identity.
 */
export const databaseId = sql.raw(`(
  (select system_identifier from pg_control_system()) || '/' ||
  (select oid from pg_database where datname = current_database()) || '/' || 'tasks'::regclass::oid)`)

/** A database at a point in time. */
export interface Identity {
  readonly database: string
  /** The next transaction id. In a copy restored from an earlier time it is lower than before. */
  readonly transaction: bigint
}

const select = statement(
  'identity.select',
  {},
  { database: 'text', transaction: 'text' },
  () => sql`
    select ${databaseId} as database, pg_snapshot_xmax(pg_current_snapshot())::text as transaction`,
)

/** The current identity of the database. */
export const readIdentity = async (db: Database): Promise<Identity> => {
  const [row] = await select(db, {})
  return parseIdentity(row)
}

/** Parses the row of a statement that always returns one. */
export const parseIdentity = (
  row: { readonly database: string; readonly transaction: string } | null | undefined,
): Identity => {
  if (row == null) throw new TypeError('The identity of the database has no row')
  return { database: row.database, transaction: BigInt(row.transaction) }
}
