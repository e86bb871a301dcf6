import type { Database } from './engine/client.ts'
import { statement } from './engine/statement.ts'
import { sql } from './schema/drizzle.ts'

/**
 * The identity of a database: its cluster, its id there, and that of its table of tasks. A restored dump is another
 * database, on the same server too, since its tables are new; a copy of the files of a whole cluster is the same one.
 */
export const databaseId = sql.raw(`(
  (select system_identifier from pg_control_system()) || '/' ||
  (select oid from pg_database where datname = current_database()) || '/' || 'tasks'::regclass::oid)`)

/** A database at some time. */
export interface Identity {
  readonly database: string
  /** Its next transaction. In a copy from an earlier time it is less than it has been. */
  readonly transaction: bigint
}

const select = statement(
  'identity.select',
  {},
  { database: 'text', transaction: 'text' },
  () => sql`
    select ${databaseId} as database, pg_snapshot_xmax(pg_current_snapshot())::text as transaction`,
)

/** The identity of the database now. */
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
