import type { Database } from './engine/client.ts'
import { sql } from './engine/drizzle.ts'
import { onlyRow, statement } from './engine/statement.ts'

/**
 * Which database this is: its cluster, the database in it, and the table of tasks. A dump that is restored, on the same
 * server too, is another one, since its tables are new; a copy of the files of a whole cluster is the same one.
 */
export const databaseId = sql.raw(`(
  (select system_identifier from pg_control_system()) || '/' ||
  (select oid from pg_database where datname = current_database()) || '/' || 'tasks'::regclass::oid)`)

/** A database as it was at some time. */
export interface Identity {
  readonly database: string
  /** Its newest transaction. In a copy of an earlier time it is one that has been already. */
  readonly transaction: bigint
}

const select = statement(
  {},
  { database: 'text', transaction: 'text' },
  () => sql`
    select ${databaseId} as database, pg_snapshot_xmax(pg_current_snapshot())::text as transaction`,
)

/** Which database this is, and which transaction comes next. */
export const readIdentity = async (db: Database): Promise<Identity> =>
  parseIdentity(onlyRow(await select(db, {})))

/** The identity in a row that a statement always has. */
export const parseIdentity = (
  row: { readonly database: string; readonly transaction: string } | null,
): Identity => {
  if (row === null) throw new TypeError('A database has an identity')
  return { database: row.database, transaction: BigInt(row.transaction) }
}
