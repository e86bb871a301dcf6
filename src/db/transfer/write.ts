import { pipeline } from 'node:stream/promises'
import type postgres from 'postgres'
import { createClient, type ServerConnection } from '../engine/connection.ts'
import { DatabaseForbidden, isForbidden, translateError } from '../engine/errors.ts'
import { createSchema, type Schema } from '../engine/migrate.ts'
import { restartHistory } from '../activity/task-changes.ts'
import { makeIndexesAfter } from './after-rows.ts'
import { prepareTransfer, quoted, readCatalog, type TableColumns, type TableRows } from './catalog.ts'

/** The target database is not empty. */
export class NotEmpty extends Error {
  override readonly name = 'NotEmpty'

  constructor(table: string) {
    super(`The table ${table} of the new database is not empty`)
  }
}

/** The tables to write are not those of the schema. */
export class TablesDiffer extends Error {
  override readonly name = 'TablesDiffer'

  constructor(table: string) {
    super(`The table ${table} is not as in the schema that it was written with`)
  }
}

/** The number of rows of a table after they were written. */
export interface WrittenTable {
  readonly table: string
  readonly rows: number
}

interface Writing {
  readonly schema: Schema
  readonly tables: readonly TableRows[]
  /** Called before the commit, with the epoch of the new history. If it rejects, nothing is written. */
  readonly verify: (written: readonly WrittenTable[], epoch: number | null) => Promise<void>
}

/**
 * Writes all tables of `readTables` to a database without rows, in one transaction. A database without tables gets the schema in it. The
 * database begins a history of its own.
 *
 * @throws NotEmpty, TablesDiffer, DatabaseUnavailable, and the errors of `rows` and `verify`
 */
export const writeTables = async (
  connection: ServerConnection,
  { schema, tables, verify }: Writing,
): Promise<readonly WrittenTable[]> => {
  const client = createClient(connection, { idle_timeout: 0 })
  try {
    return await client.begin(async (transaction) => {
      await prepareTransfer(transaction)
      await createSchema(transaction, schema)
      expectSameTables(tables, await readCatalog(transaction))
      // The service writes these rows when it starts.
      await transaction.unsafe('delete from event_readers')
      const written = await makeIndexesAfter(transaction, () => writeEach(transaction, tables))
      await advanceSequences(transaction)
      await transaction.unsafe(restartHistory)
      await verify(written, await selectEpoch(transaction))
      return written
    })
  } catch (error) {
    throw isForbidden(error) ? new DatabaseForbidden(error) : translateError(error)
  } finally {
    await client.end({ timeout: 1 })
  }
}

/** A random number of the history of a database, by which a copy can be recognized; null before it has one. */
export const readEpoch = async (connection: ServerConnection): Promise<number | null> => {
  const client = createClient(connection)
  try {
    const [found] = await client<{ exists: boolean }[]>`
      select to_regclass('public.change_history') is not null as exists`
    return found?.exists === true ? await selectEpoch(client) : null
  } catch (error) {
    throw translateError(error)
  } finally {
    await client.end({ timeout: 1 })
  }
}

const selectEpoch = async (client: postgres.ISql): Promise<number | null> => {
  const [found] = await client.unsafe<{ epoch: number }[]>('select epoch from public.change_history')
  return found?.epoch ?? null
}

/** Names that are in the catalog can be part of a statement. */
const expectSameTables = (tables: readonly TableColumns[], expected: readonly TableColumns[]): void => {
  const described = ({ name, columns }: TableColumns): string => JSON.stringify([name, ...columns.toSorted()])
  const [found, wanted] = [new Set(tables.map(described)), new Set(expected.map(described))]
  const other =
    tables.find((table) => !wanted.has(described(table))) ??
    expected.find((table) => !found.has(described(table)))
  if (other !== undefined) throw new TablesDiffer(other.name)
}

const writeEach = async (
  transaction: postgres.TransactionSql,
  tables: readonly TableRows[],
): Promise<readonly WrittenTable[]> => {
  const written: WrittenTable[] = []
  for (const table of tables) written.push(await writeTable(transaction, table))
  return written
}

const writeTable = async (transaction: postgres.TransactionSql, table: TableRows): Promise<WrittenTable> => {
  const name = `public.${quoted(table.name)}`
  if ((await countRows(transaction, name)) > 0) throw new NotEmpty(table.name)
  // Rows that triggers maintain are written too, so the triggers must not run.
  await transaction.unsafe(`alter table ${name} disable trigger user`)
  await copyIn(transaction, `copy ${name} (${table.columns.map(quoted).join(', ')}) from stdin`, table.rows())
  await transaction.unsafe(`alter table ${name} enable trigger user`)
  return { table: table.name, rows: await countRows(transaction, name) }
}

const copyIn = async (
  transaction: postgres.TransactionSql,
  statement: string,
  rows: AsyncIterable<Uint8Array>,
): Promise<void> => {
  const { promise: failed, reject } = Promise.withResolvers<never>()
  const query = transaction.unsafe(statement)
  const stream = await query.writable()
  // The driver reports an error after the last row to the query alone, which is resolved by then.
  void Object.assign(query, { reject })
  await Promise.race([pipeline(rows, stream), failed])
}

/** Sets each sequence past the largest value of its column, so that new rows come after the written ones. */
const advanceSequences = async (transaction: postgres.TransactionSql): Promise<void> => {
  const sequences = await transaction<{ sequence: string; table: string; column: string }[]>`
    select pg_depend.objid::regclass::text as sequence, refobjid::regclass::text as table, quote_ident(attname) as column
    from pg_depend join pg_class on pg_class.oid = objid and relkind = 'S'
    join pg_attribute on attrelid = refobjid and attnum = refobjsubid
    where deptype in ('a', 'i') and relnamespace = 'public'::regnamespace`
  for (const { sequence, table, column } of sequences)
    await transaction.unsafe(
      `select setval('${sequence}', max(${column})) from ${table} having max(${column}) is not null`,
    )
}

const countRows = async (client: postgres.ISql, name: string): Promise<number> => {
  const [found] = await client.unsafe<{ count: string }[]>(`select count(*) as count from ${name}`)
  return Number(found?.count)
}
