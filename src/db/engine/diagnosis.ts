import { randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import type postgres from 'postgres'
import { withTimeout } from '../../concurrency/deadline.ts'
import { createClient, type ServerConnection } from './connection.ts'
import { DatabaseUnavailable, translateError } from './errors.ts'
import { listenForNotifications } from './notifications.ts'

/** The state of a reachable database, for finding configuration errors. */
interface Diagnosis {
  /** `server_version_num`: 150004 is 15.4. */
  readonly version: number
  /** Whether the user has the privileges that migrations need. */
  readonly mayMigrate: boolean
  /** Comma-separated tables that the user cannot both read and write; null for none. */
  readonly deniedTables: string | null
  /** Milliseconds; 0 for none. */
  readonly statementTimeout: number
  /** Whether a connection that listens gets notifications. */
  readonly notifies: boolean
  /** False for a standby, and for a server that is configured read-only. */
  readonly takesWrites: boolean
  /** Milliseconds by which the database's clock is ahead of this process's. */
  readonly clockAhead: number
}

/** Milliseconds. */
const deadline = 10_000
const echoDeadline = 2_000

const channel = 'taskwright_doctor'

/** Listens on a connection of its own, which `end` closes. */
const listenForEcho = (connection: ServerConnection) => {
  const listens = Promise.withResolvers<void>()
  const echoes = new EventEmitter()
  const client = listenForNotifications(connection, channel, {
    onNotification: (payload) => void echoes.emit(payload),
    onListening: listens.resolve,
  })
  return {
    /** Whether it hears what another connection says. */
    async hears(other: postgres.Sql): Promise<boolean> {
      await listens.promise
      const payload = randomUUID()
      const echo = once(echoes, payload, { signal: AbortSignal.timeout(echoDeadline) })
      echo.catch(() => undefined)
      await other.notify(channel, payload)
      return echo.then(
        () => true,
        () => false,
      )
    },
    end: () => client.end({ timeout: 1 }),
  }
}

/**
 * Inspects a database without changing it.
 *
 * @throws DatabaseUnavailable
 */
export const diagnose = async (connection: ServerConnection): Promise<Diagnosis> => {
  const client = createClient(connection)
  const listening = listenForEcho(connection)
  const inspect = async (): Promise<Diagnosis> => {
    const [row] = await client<
      {
        version: number
        may_migrate: boolean
        denied_tables: string | null
        statement_timeout: number
        takes_writes: boolean
        now: string
      }[]
    >`
      select current_setting('server_version_num')::int as version,
        has_schema_privilege('public', 'create') and has_database_privilege(current_database(), 'create') and not exists (
          select from pg_class
          where relnamespace = 'public'::regnamespace and relkind = 'r' and not pg_has_role(relowner, 'usage')) as may_migrate,
        (
          select string_agg(relname, ', ' order by relname) from pg_class
          where relnamespace = 'public'::regnamespace and relkind = 'r' and not (
            has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
            and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'))
        ) as denied_tables,
        (select setting::int from pg_settings where name = 'statement_timeout') as statement_timeout,
        not current_setting('transaction_read_only')::bool as takes_writes,
        (extract(epoch from clock_timestamp()) * 1000)::bigint as now`
    if (row === undefined) throw new Error('A statement without FROM has a row')
    return {
      version: row.version,
      mayMigrate: row.may_migrate,
      deniedTables: row.denied_tables,
      statementTimeout: row.statement_timeout,
      notifies: await listening.hears(client),
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
    await Promise.all([client.end({ timeout: 1 }), listening.end()])
  }
}
