import postgres from 'postgres'
import { socketsAtBoundedRate } from './sockets.ts'

/** The embedded database's socket: a Unix socket, or a TCP port where there are none. */
export type EmbeddedConnection = (
  | { readonly kind: 'embedded'; readonly path: string }
  | { readonly kind: 'embedded'; readonly host: string; readonly port: number }
) & {
  /** Ends whatever statement holds the database, and resolves when it can be connected to again. */
  readonly restart: () => Promise<void>
}

/** A PostgreSQL server; `url` is a postgres:// URL and holds a password. */
export interface ServerConnection {
  readonly kind: 'server'
  readonly url: string
}

export type ConnectionOptions = EmbeddedConnection | ServerConnection

/** `socket` is missing from the driver's own types. */
type DriverOptions = postgres.Options<Record<string, postgres.PostgresType>> & {
  readonly socket?: ReturnType<typeof socketsAtBoundedRate>
}

/** Seconds to the end of the server's greeting. */
const connectSeconds = 5

/** Milliseconds after which a server gives up a statement. */
export const statementTimeout = 8_000

const common = {
  max: 1,
  fetch_types: false,
  prepare: true,
  onnotice: () => {},
  // The driver would let a statement wait for up to 20 seconds before it tries to connect again.
  backoff: () => 0,
} as const

/**
 * Options for postgres.js (its times are seconds). A server's URL is not among them: it is the driver's
 * first argument.
 */
function postgresOptions(connection: ConnectionOptions): DriverOptions {
  return connection.kind === 'server' ? serverOptions() : embeddedOptions(connection)
}

/** A postgres.js client of one connection, which connects at its first query; `overrides` go before the usual options. */
export function createClient(connection: ConnectionOptions, overrides: DriverOptions = {}): postgres.Sql {
  const options = { ...postgresOptions(connection), ...overrides }
  return connection.kind === 'server' ? postgres(connection.url, options) : postgres(options)
}

function serverOptions(): DriverOptions {
  return {
    ...common,
    socket: socketsAtBoundedRate(),
    connect_timeout: connectSeconds,
    idle_timeout: 300,
    connection: {
      application_name: 'taskwright',
      statement_timeout: statementTimeout,
      timezone: 'UTC',
      // Compiling a statement that runs for milliseconds takes longer than it saves. The driver leaves out what is false.
      jit: 'off',
    },
  }
}

// Each new connection would leave the prepared statements of the last behind.
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
    max_lifetime: null,
  }
}
