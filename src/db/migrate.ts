import { fileURLToPath } from 'node:url'
import type postgres from 'postgres'
import { within } from '../domain/deadline.ts'
import { type ConnectionOptions, createClient } from './connection.ts'
import { type MigrationMeta, readMigrationFiles } from './drizzle.ts'
import { DatabaseUnavailable, isTransient, translateError } from './errors.ts'

/** The migrations that this version knows. */
const ownFolder = fileURLToPath(new URL('./migrations', import.meta.url))

/** Any number will do, as long as every version of the service takes the same. */
const migrationLock = 7_411_201_500

/** Milliseconds that reading takes at most. A migration itself takes what it takes. */
const readDeadline = 10_000

/** Which migrations a database has; `unknown` ones belong to a newer version of the service. */
export interface MigrationState {
  readonly applied: number
  readonly pending: number
  readonly unknown: number
}

/**
 * Brings a database's schema up to this version. Several processes may do so at once: on a server the others wait for
 * the first. (The embedded database has a single process by nature, and a single session that no lock excludes.) Another
 * `folder` has the migrations of another version. Resolves to how many of a newer version there are, which change nothing
 * that this one needs.
 *
 * @throws DatabaseUnavailable
 */
export const migrate = (connection: ConnectionOptions, folder: string = ownFolder): Promise<number> =>
  withClient(connection, async (client) => {
    const known = readMigrationFiles({ migrationsFolder: folder })
    while (!(await applyPending(client, known)));
    return compare(await readApplied(client), known).unknown
  })

/**
 * Compares a database's migrations with those of this version.
 *
 * @throws DatabaseUnavailable
 */
export const readMigrationState = (connection: ConnectionOptions): Promise<MigrationState> =>
  withClient(connection, async (client) => {
    return compare(await readApplied(client), readMigrationFiles({ migrationsFolder: ownFolder }))
  })

const compare = (applied: ReadonlySet<number>, known: readonly MigrationMeta[]): MigrationState => {
  const pending = known.filter(({ folderMillis }) => !applied.has(folderMillis)).length
  const found = known.length - pending
  return { applied: found, pending, unknown: applied.size - found }
}

const withClient = async <T>(
  connection: ConnectionOptions,
  use: (client: postgres.Sql) => Promise<T>,
): Promise<T> => {
  const client = createClient(connection, {
    connection: { application_name: 'taskwright-migrate', statement_timeout: 0 },
  })
  try {
    return await use(client)
  } catch (error) {
    throw translateError(error)
  } finally {
    await client.end({ timeout: 5 })
  }
}

/** The times of making by which drizzle-kit's journal names them. */
const readApplied = async (client: postgres.Sql): Promise<ReadonlySet<number>> => {
  const read = async (): Promise<ReadonlySet<number>> => {
    const [found] = await client<{ exists: boolean }[]>`
      select to_regclass('drizzle.__drizzle_migrations') is not null as exists`
    if (found?.exists !== true) return new Set()
    const rows = await client<{ created_at: string }[]>`select created_at from drizzle.__drizzle_migrations`
    return new Set(rows.map(({ created_at: madeAt }) => Number(madeAt)))
  }
  return within(
    readDeadline,
    read(),
    () => new DatabaseUnavailable({ cause: new Error('it does not answer') }),
  )
}

/** Resolves to false when another process was faster and it is to be looked at again. */
const applyPending = async (client: postgres.Sql, known: readonly MigrationMeta[]): Promise<boolean> => {
  const applied = await readApplied(client)
  const pending = known.filter(({ folderMillis }) => !applied.has(folderMillis))
  if (pending.length === 0) return true
  try {
    await client.unsafe(scriptOf(pending, applied.size)).simple()
    return true
  } catch (error) {
    if (isTransient(error)) return false
    throw error
  }
}

/**
 * All of it as one message, which PostgreSQL runs as one transaction: it is applied whole or not at all, and the driver
 * has no part in a transaction whose connection is lost.
 */
const scriptOf = (pending: readonly MigrationMeta[], appliedBefore: number): string =>
  [
    `select pg_advisory_xact_lock(${migrationLock})`,
    'create schema if not exists drizzle',
    `create table if not exists drizzle.__drizzle_migrations (
      id serial primary key, hash text not null, created_at bigint)`,
    `do $$ begin
      if (select count(*) from drizzle.__drizzle_migrations) <> ${appliedBefore} then
        raise exception 'Another process has migrated' using errcode = 'serialization_failure';
      end if;
    end $$`,
    ...pending.flatMap(({ sql, hash, folderMillis }) => [
      ...sql,
      `insert into drizzle.__drizzle_migrations (hash, created_at) values ('${hash}', ${folderMillis})`,
    ]),
  ].join('\n;\n')
