import type { Duplex } from 'node:stream'
import postgres from 'postgres'
import { type Address, rateLimitedSockets } from './sockets.ts'

/** The address of the embedded database: a Unix socket, or a TCP port on systems without them. */
export type EmbeddedConnection = (
  | { readonly kind: 'embedded'; readonly path: string }
  | { readonly kind: 'embedded'; readonly host: string; readonly port: number }
) & {
  /** Aborts the running statement and restarts the database. Resolves when it accepts connections again. */
  readonly restart: () => Promise<void>
}

/** A PostgreSQL server. `url` is a postgres:// URL and contains a password. */
export interface ServerConnection {
  readonly kind: 'server'
  readonly url: string
  /** A Unix socket, which is used instead of the host and the port of the URL. */
  readonly path?: string
}

export type ConnectionOptions = EmbeddedConnection | ServerConnection

/** The driver's types omit `socket`. */
type DriverOptions = postgres.Options<Record<string, postgres.PostgresType>> & {
  readonly socket?: (address: Address) => Promise<Duplex>
}

/** Seconds to connect and complete the startup handshake. */
const connectSeconds = 5

/**
 * Milliseconds after which PostgreSQL cancels a statement of a session: of reads, which a caller can make expensive. Transactions have
 * another limit.
 */
export const readTimeout = 2_000

/** The same for each statement of a transaction, which can wait for the locks of others. */
export const writeTimeout = 8_000

const common = {
  max: 1,
  fetch_types: false,
  prepare: true,
  onnotice: () => {},
  // By default the driver waits up to 20 seconds before it reconnects, and statements wait with it.
  backoff: () => 0,
  // By default the driver ends a connection after 30 to 60 minutes, even within a transaction; and each new connection would leave
  // the prepared statements of the previous one in the single session of the embedded database.
  max_lifetime: null,
} as const

/** Options for postgres.js, with times in seconds. A server's URL is a separate argument of the driver. */
function postgresOptions(connection: ConnectionOptions): DriverOptions {
  return connection.kind === 'server' ? serverOptions(connection) : embeddedOptions(connection)
}

/** A postgres.js client with one connection, opened at its first query. `overrides` take precedence. */
export function createClient(connection: ConnectionOptions, overrides: DriverOptions = {}): postgres.Sql {
  const options = { ...postgresOptions(connection), ...overrides }
  return connection.kind === 'server' ? postgres(connection.url, options) : postgres(options)
}

function serverOptions({ path }: ServerConnection): DriverOptions {
  return {
    ...common,
    ...(path !== undefined && { path }),
    socket: rateLimitedSockets(),
    connect_timeout: connectSeconds,
    idle_timeout: 300,
    connection: {
      application_name: 'taskwright',
      statement_timeout: readTimeout,
      timezone: 'UTC',
      // For statements of a few milliseconds, JIT compilation costs more than it saves. A string: the driver omits `false`.
      jit: 'off',
    },
  }
}

function embeddedOptions(connection: EmbeddedConnection): DriverOptions {
  const { kind: _, restart: __, ...address } = connection
  return {
    ...common,
    ...address,
    user: 'postgres',
    database: 'postgres',
    ssl: false,
    connect_timeout: connectSeconds,
    idle_timeout: 0,
  }
}
