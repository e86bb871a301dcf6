import { drizzle } from 'drizzle-orm/postgres-js'
import { migrate as runMigrations } from 'drizzle-orm/postgres-js/migrator'
import { fileURLToPath } from 'node:url'
import { type ConnectionOptions, createClient } from './connection.ts'
import { DatabaseUnavailable, isTransient, translateError } from './errors.ts'

/** A connected database, as the statements of this folder use it. */
export interface Database {
  /**
   * Runs one statement, again if it lost a deadlock. A prepared one is kept by the connection for its next use.
   *
   * @throws ConstraintViolation when it broke a constraint
   * @throws DatabaseUnavailable when the database cannot be reached or too many statements wait for it
   */
  run(
    text: string,
    values: readonly unknown[],
    isPrepared?: boolean,
  ): Promise<readonly Readonly<Record<string, unknown>>[]>
  /** Is told of audit events that are committed: a JSON array of them. */
  readonly audited?: (events: string) => void
  /** Lets running statements finish, for up to 5 seconds. */
  close(): Promise<void>
}

const migrationsFolder = fileURLToPath(new URL('./migrations', import.meta.url))

/** Any number will do, as long as every version of the service takes the same. */
const migrationLock = 7_411_201_500

const attempts = 3

/** The driver's queue has no bound of its own: past this many waiting statements new ones are refused. */
const mostPending = 2_000

/** Opens a database; the first statement connects. */
export const openDatabase = (connection: ConnectionOptions): Database => {
  const client = createClient(connection)
  let pending = 0

  const runOnce = async (text: string, values: readonly unknown[], prepare: boolean) => {
    if (pending >= mostPending) throw new DatabaseUnavailable()
    pending += 1
    try {
      return await client.unsafe<Record<string, unknown>[]>(text, values as never[], { prepare })
    } finally {
      pending -= 1
    }
  }

  return {
    async run(text, values, isPrepared = true) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await runOnce(text, values, isPrepared)
        } catch (error) {
          if (attempt >= attempts || !isTransient(error)) throw translateError(error)
        }
      }
    },
    close: () => client.end({ timeout: 5 }),
  }
}

/**
 * Brings a database's schema up to this version. Several processes may do so at once: on a server the others wait for
 * the first. (The embedded database has a single process by nature, and a single session that no lock excludes.)
 */
export const migrate = async (connection: ConnectionOptions): Promise<void> => {
  const client = createClient(connection, {
    max: 1,
    connection: { application_name: 'taskwright-migrate', statement_timeout: 0 },
  })
  try {
    if (connection.kind === 'server') await client`select pg_advisory_lock(${migrationLock})`
    await runMigrations(drizzle(client), { migrationsFolder })
  } catch (error) {
    throw translateError(error)
  } finally {
    await client.end({ timeout: 5 })
  }
}
