import type { Duplex } from 'node:stream'
import postgres from 'postgres'
import { type Address, rateLimitedSockets } from './sockets.ts'

/** A PostgreSQL server. `url` is a postgres:// URL and contains a password. */
export interface ServerConnection {
  readonly url: string
  /** A Unix socket, which is used instead of the host and the port of the URL. */
  readonly path?: string
}

/** The driver's types omit `socket`. */
type DriverOptions = postgres.Options<Record<string, postgres.PostgresType>> & {
  readonly socket?: (address: Address) => Promise<Duplex>
}

/** Seconds to connect and complete the startup handshake. */
const connectSeconds = 5

/**
 * Milliseconds after which PostgreSQL cancels a statement of a session: of reads, which a caller can make expensive. Transactions have
 * another limit. PgBouncer in transaction mode ignores it as a startup parameter: the user of the database must have the same setting.
 */
export const maxStatementTime = 2_000

/** The same for each statement of a transaction, which can wait for the locks of others. */
export const maxStatementTimeInTransaction = 8_000

/** Options for postgres.js, with times in seconds. The server's URL is a separate argument of the driver. */
const optionsFor = ({ path }: ServerConnection): DriverOptions => ({
  max: 1,
  fetch_types: false,
  prepare: true,
  onnotice: () => {},
  // By default the driver waits up to 20 seconds before it reconnects, and statements wait with it.
  backoff: () => 0,
  // By default the driver ends a connection after 30 to 60 minutes, even within a transaction.
  max_lifetime: null,
  ...(path !== undefined && { path }),
  socket: rateLimitedSockets(),
  connect_timeout: connectSeconds,
  idle_timeout: 300,
  connection: {
    application_name: 'taskwright',
    statement_timeout: maxStatementTime,
    timezone: 'UTC',
    // For statements of a few milliseconds, JIT compilation costs more than it saves. A string: the driver omits `false`.
    jit: 'off',
  },
})

/** A postgres.js client with one connection, opened at its first query. `overrides` take precedence. */
export const createClient = (connection: ServerConnection, overrides: DriverOptions = {}): postgres.Sql =>
  postgres(connection.url, { ...optionsFor(connection), ...overrides })
