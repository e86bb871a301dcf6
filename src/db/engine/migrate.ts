import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type postgres from 'postgres'
import { withTimeout } from '../../concurrency/deadline.ts'
import { createClient, type ServerConnection } from './connection.ts'
import { type MigrationMeta, readMigrationFiles } from '../schema/drizzle.ts'
import {
  DatabaseForbidden,
  DatabaseUnavailable,
  DatabaseUnsuitable,
  isForbidden,
  isTransient,
  SchemaUnknown,
  translateError,
} from './errors.ts'

/** Advisory lock key. Arbitrary, but must be the same in every version of the service. */
const migrationLock = 7_411_201_500

/** Milliseconds for reading the state. Applying has no deadline: a migration of large tables takes long. */
const readDeadline = 10_000

/** Functions and triggers: the generated ones of migrations/folding.sql, and then routines.sql, whose revision is that of both. */
interface Routines {
  readonly revision: number
  readonly sql: string
  readonly hash: string
}

/** The schema that this version of the service requires. */
export interface Schema {
  readonly migrations: readonly MigrationMeta[]
  readonly routines: Routines
}

/** The schema that a database has. */
interface Applied {
  /** Creation times, which identify migrations in drizzle-kit's journal. */
  readonly migrations: ReadonlySet<number>
  readonly routines: Pick<Routines, 'revision' | 'hash'> | null
  readonly encoding: string
  /** All relations of the schema `public`. */
  readonly relations: ReadonlySet<string>
}

/** Numbers of migrations. `unknown` ones belong to a newer version of the service. */
interface MigrationState {
  readonly applied: number
  readonly pending: number
  readonly unknown: number
}

/** The revision in the first line of routines.sql, which generated functions may precede. @throws Error */
export const revisionOf = (sql: string): number => {
  const revision = /^-- Revision (\d+)$/m.exec(sql)?.[1]
  if (revision === undefined) throw new Error('routines.sql does not begin with "-- Revision <number>"')
  return Number(revision)
}

/**
 * Reads migrations and routines from a folder with the layout of `src/db`.
 *
 * @throws Error when routines.sql does not begin with its revision
 */
export const readSchema = (folder: string = fileURLToPath(new URL('..', import.meta.url))): Schema => {
  const routines = readFileSync(`${folder}/routines.sql`, 'utf8')
  const sql = `${readFileSync(`${folder}/migrations/folding.sql`, 'utf8')}\n${routines}`
  const hash = createHash('sha256').update(sql).digest('hex')
  return {
    migrations: readMigrationFiles({ migrationsFolder: `${folder}/migrations` }),
    routines: { revision: revisionOf(routines), sql, hash },
  }
}

interface MigrateOptions {
  readonly schema?: Schema
  /** Called before something is applied; again, if another process was faster. */
  readonly onPending?: () => void
}

/**
 * Migrates a database to this version's schema. Several processes may do so concurrently: the others wait for the first. Resolves to the
 * number of migrations from a newer version; they are compatible with this version.
 *
 * @throws DatabaseUnavailable
 * @throws DatabaseUnsuitable when the tables were created by another program or by a version before the first release, or belong to another
 * user
 */
export const migrate = (
  connection: ServerConnection,
  { schema = readSchema(), onPending = () => undefined }: MigrateOptions = {},
): Promise<number> =>
  withClient(connection, async (client) => {
    while (!(await applyPending(client, schema, onPending)));
    return compare(await readApplied(client), schema).unknown
  })

/**
 * Creates a schema within a transaction of a database that has no tables of the service, or the tables of this schema already.
 *
 * @throws DatabaseUnsuitable as `migrate` does, and for another schema
 */
export const createSchema = async (transaction: postgres.TransactionSql, schema: Schema): Promise<void> => {
  const applied = await readTables(transaction)
  expectMigratable(applied, schema)
  const { pending, unknown } = compare(applied, schema)
  if (pending === 0 && unknown === 0) return
  if (applied.migrations.size > 0)
    throw new DatabaseUnsuitable(
      'The database has tables of another version of Taskwright. Name an empty database',
    )
  await transaction.unsafe(scriptOf(applied, schema.migrations, schema.routines)).simple()
}

/**
 * Compares a database's migrations with those of this version.
 *
 * @throws DatabaseUnavailable
 * @throws DatabaseUnsuitable as `migrate` does
 */
export const readMigrationState = (connection: ServerConnection): Promise<MigrationState> =>
  withClient(connection, async (client) => {
    const [applied, schema] = [await readApplied(client), readSchema()]
    expectMigratable(applied, schema)
    return compare(applied, schema)
  })

const compare = (applied: Applied, schema: Schema): MigrationState => {
  const missing = pendingMigrations(applied, schema).length
  const found = schema.migrations.length - missing
  return {
    applied: found,
    pending: missing + (areRoutinesPending(applied, schema) ? 1 : 0),
    unknown: applied.migrations.size - found,
  }
}

const pendingMigrations = (applied: Applied, { migrations }: Schema): readonly MigrationMeta[] =>
  migrations.filter(({ folderMillis }) => !applied.migrations.has(folderMillis))

/** A higher revision belongs to a newer version during a rolling upgrade. */
const areRoutinesPending = ({ routines: applied }: Applied, { routines }: Schema): boolean =>
  applied === null ||
  applied.revision < routines.revision ||
  (applied.revision === routines.revision && applied.hash !== routines.hash)

const withClient = async <T>(
  connection: ServerConnection,
  use: (client: postgres.Sql) => Promise<T>,
): Promise<T> => {
  const client = createClient(connection, {
    connection: { application_name: 'taskwright-migrate' },
  })
  try {
    return await use(client)
  } catch (error) {
    throw isForbidden(error) ? new DatabaseForbidden(error) : translateError(error)
  } finally {
    await client.end({ timeout: 5 })
  }
}

const readApplied = (client: postgres.Sql): Promise<Applied> =>
  withTimeout(
    readDeadline,
    readTables(client),
    () => new DatabaseUnavailable({ cause: new Error('it does not answer') }),
  )

const readTables = async (client: postgres.ISql): Promise<Applied> => {
  // Before the migrations: another process may apply them meanwhile.
  const [server] = await client<{ encoding: string; relations: string }[]>`
    select current_setting('server_encoding') as encoding,
      (select coalesce(json_agg(relname), '[]') from pg_class where relnamespace = 'public'::regnamespace)::text as relations`
  const migrations = (await exists(client, 'drizzle.__drizzle_migrations'))
    ? await client<{ created_at: string }[]>`select created_at from drizzle.__drizzle_migrations`
    : []
  const [routines] = (await exists(client, 'drizzle.routines'))
    ? await client<{ revision: number; hash: string }[]>`select revision, hash from drizzle.routines`
    : []
  return {
    migrations: new Set(migrations.map(({ created_at: madeAt }) => Number(madeAt))),
    routines: routines ?? null,
    encoding: server?.encoding ?? '',
    relations: new Set(JSON.parse(server?.relations ?? '[]') as string[]),
  }
}

/** @throws DatabaseUnsuitable */
const expectMigratable = (applied: Applied, schema: Schema): void => {
  if (applied.encoding !== 'UTF8')
    throw new DatabaseUnsuitable(
      `The encoding of the database is ${applied.encoding} instead of UTF8. Create another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    )
  if (pendingMigrations(applied, schema).length < schema.migrations.length) return
  // The first migration creates the tables, so a database that has only unknown migrations has another origin.
  if (applied.migrations.size > 0) throw new SchemaUnknown()
  const created = schema.migrations.flatMap(({ sql }) => sql).join('\n')
  const taken = [...created.matchAll(/^CREATE TABLE "(\w+)"/gm)].map(([, name = '']) => name)
  const table = taken.find((name) => applied.relations.has(name))
  if (table !== undefined)
    throw new DatabaseUnsuitable(
      `The database has a table ${table} of another program. Set DATABASE_URL to a database of its own`,
    )
}

const exists = async (client: postgres.ISql, table: string): Promise<boolean> => {
  const [found] = await client<{ exists: boolean }[]>`select to_regclass(${table}) is not null as exists`
  return found?.exists === true
}

/** Resolves to false if another process migrated first; the state must then be read again. */
const applyPending = async (
  client: postgres.Sql,
  schema: Schema,
  onPending: () => void,
): Promise<boolean> => {
  const applied = await readApplied(client)
  const pending = pendingMigrations(applied, schema)
  const routines = areRoutinesPending(applied, schema) ? schema.routines : null
  expectMigratable(applied, schema)
  if (pending.length === 0 && routines === null) return true
  onPending()
  try {
    await client.unsafe(scriptOf(applied, pending, routines)).simple()
    return true
  } catch (error) {
    if (isTransient(error)) return false
    throw error
  }
}

/**
 * The whole migration as one simple-query message, which PostgreSQL runs as one transaction: it is applied completely or
 * not at all, even if the connection is lost, without transaction handling in the driver.
 */
const scriptOf = (applied: Applied, pending: readonly MigrationMeta[], routines: Routines | null): string =>
  [
    // In the statement and not for the session: a pooler ignores what a connection sets at its start.
    'set local statement_timeout = 0',
    `select pg_advisory_xact_lock(${migrationLock})`,
    'create schema if not exists drizzle',
    `create table if not exists drizzle.__drizzle_migrations (
      id serial primary key, hash text not null, created_at bigint)`,
    `create table if not exists drizzle.routines (
      singleton boolean primary key default true check (singleton), revision integer not null, hash text not null)`,
    `do $$ begin
      if (select count(*) from drizzle.__drizzle_migrations) <> ${applied.migrations.size}
        or (select max(hash) from drizzle.routines) is distinct from ${quoteHash(applied.routines)} then
        raise exception 'Another process has migrated' using errcode = 'serialization_failure';
      end if;
    end $$`,
    ...pending.flatMap(({ sql, hash, folderMillis }) => [
      ...sql,
      `insert into drizzle.__drizzle_migrations (hash, created_at) values ('${hash}', ${folderMillis})`,
    ]),
    ...(routines === null
      ? []
      : [
          routines.sql,
          `insert into drizzle.routines (revision, hash) values (${routines.revision}, '${routines.hash}')
            on conflict (singleton) do update set revision = excluded.revision, hash = excluded.hash`,
        ]),
  ].join('\n;\n')

const quoteHash = (routines: Applied['routines']): string =>
  routines === null ? 'null' : `'${routines.hash}'`
