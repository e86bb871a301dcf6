import { withTimeout } from '../../concurrency/deadline.ts'
import { type ConnectionOptions, createClient } from './connection.ts'
import { DatabaseUnavailable, translateError } from './errors.ts'

/** The state of a reachable database, for finding configuration mistakes. */
export interface Diagnosis {
  /** `server_version_num`: 150004 is 15.4. */
  readonly version: number
  /** Whether the user has the privileges that migrations need. */
  readonly mayMigrate: boolean
  /** Comma-separated tables that the user cannot both read and write; null for none. */
  readonly deniedTables: string | null
  /** False for a standby, and for a server that is configured read-only. */
  readonly takesWrites: boolean
  /** Milliseconds by which the database's clock is ahead of this process's. */
  readonly clockAhead: number
}

/** Milliseconds. */
const deadline = 10_000

/**
 * Inspects a database without changing it.
 *
 * @throws DatabaseUnavailable
 */
export const diagnose = async (connection: ConnectionOptions): Promise<Diagnosis> => {
  const client = createClient(connection)
  const inspect = async (): Promise<Diagnosis> => {
    const [row] = await client<
      {
        version: number
        may_migrate: boolean
        denied_tables: string | null
        takes_writes: boolean
        now: string
      }[]
    >`
      select current_setting('server_version_num')::int as version,
        has_schema_privilege('public', 'create') and has_database_privilege(current_database(), 'create') as may_migrate,
        (
          select string_agg(relname, ', ' order by relname) from pg_class
          where relnamespace = 'public'::regnamespace and relkind = 'r' and not (
            has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
            and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'))
        ) as denied_tables,
        not current_setting('transaction_read_only')::bool as takes_writes,
        (extract(epoch from clock_timestamp()) * 1000)::bigint as now`
    if (row === undefined) throw new Error('A statement without FROM has a row')
    return {
      version: row.version,
      mayMigrate: row.may_migrate,
      deniedTables: row.denied_tables,
      takesWrites: row.takes_writes,
      clockAhead: Number(row.now) - Date.now(),
    }
  }
  try {
    return await withTimeout(
      deadline,
      inspect(),
      () => new DatabaseUnavailable({ cause: new Error('no answer') }),
    )
  } catch (error) {
    throw translateError(error)
  } finally {
    await client.end({ timeout: 1 })
  }
}
