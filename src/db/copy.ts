import type postgres from 'postgres'
import { type ConnectionOptions, createClient } from './engine/connection.ts'
import { translateError } from './engine/errors.ts'
import { migrate, readSchema, type Schema } from './engine/migrate.ts'
import { restartHistory } from './task-changes.ts'

/** The target database is not empty. */
export class NotEmpty extends Error {
  override readonly name = 'NotEmpty'

  constructor(table: string) {
    super(`The table ${table} of the new database is not empty`)
  }
}

/** The number of rows of a table, now equal in both databases. */
export interface CopiedTable {
  readonly table: string
  readonly rows: number
}

/** Rows per statement. The largest rows, tasks, have up to 64 KiB. */
const batch = 200

/**
 * Copies all rows of one database into another, which must be empty. Both are migrated first, to the schema of this version unless
 * another is given. The copy is one transaction: either all rows are copied, with equal row counts in each table, or none.
 *
 * @throws NotEmpty, DatabaseUnavailable
 */
export const copyDatabase = async (
  from: ConnectionOptions,
  to: ConnectionOptions,
  schema: Schema = readSchema(),
): Promise<readonly CopiedTable[]> => {
  await migrate(from, { schema })
  await migrate(to, { schema })
  const options = { max_lifetime: null, connection: { statement_timeout: 0, timezone: 'UTC' } }
  const source = createClient(from, from.kind === 'server' ? options : {})
  const target = createClient(to, options)
  try {
    const tables = await tablesInOrder(source)
    return await target.begin(async (transaction) => {
      // The service writes these rows at startup. The copy starts a new history, since positions of clients refer to the old database.
      await transaction.unsafe('delete from change_history')
      await transaction.unsafe('delete from event_readers')
      const copied: CopiedTable[] = []
      for (const table of tables) copied.push(await copyTable(source, transaction, table))
      await advanceSequences(transaction)
      await transaction.unsafe(restartHistory)
      return copied
    })
  } catch (error) {
    throw translateError(error)
  } finally {
    // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
    await Promise.all([source.end({ timeout: 5 }), target.end({ timeout: 5 })])
  }
}

const copyTable = async (
  source: postgres.Sql,
  target: postgres.TransactionSql,
  { name: table, columns }: Table,
): Promise<CopiedTable> => {
  const name = `public."${table}"`
  if ((await countRows(target, name)) > 0) throw new NotEmpty(table)
  // Rows that triggers maintain are copied too, so the triggers must not run.
  await target.unsafe(`alter table ${name} disable trigger user`)
  let after = '(0,0)'
  for (;;) {
    // Copied as text, because numbers and times would lose precision as JavaScript values.
    const [page] = await source.unsafe<{ rows: string | null; last: string | null }[]>(
      `select '[' || string_agg(to_jsonb(item)::text, ',') || ']' as rows, max(item.ctid)::text as last
      from (select ctid, * from ${name} where ctid > $1::tid order by ctid limit ${batch}) item`,
      [after],
    )
    if (page?.rows == null || page.last === null) break
    await target.unsafe(
      `insert into ${name} (${columns}) select ${columns} from jsonb_populate_recordset(null::${name}, $1::text::jsonb)`,
      [page.rows],
    )
    after = page.last
  }
  await target.unsafe(`alter table ${name} enable trigger user`)
  const [rows, expected] = [await countRows(target, name), await countRows(source, name)]
  if (rows !== expected) throw new Error(`The table ${table} has ${rows} rows instead of ${expected}`)
  return { table, rows }
}

/** Sets each sequence past the largest value of its column, so that new rows come after the copied ones. */
const advanceSequences = async (target: postgres.TransactionSql): Promise<void> => {
  const sequences = await target<{ sequence: string; table: string; column: string }[]>`
    select pg_depend.objid::regclass::text as sequence, refobjid::regclass::text as table, quote_ident(attname) as column
    from pg_depend join pg_class on pg_class.oid = objid and relkind = 'S'
    join pg_attribute on attrelid = refobjid and attnum = refobjsubid
    where deptype in ('a', 'i') and relnamespace = 'public'::regnamespace`
  for (const { sequence, table, column } of sequences)
    await target.unsafe(
      `select setval('${sequence}', max(${column})) from ${table} having max(${column}) is not null`,
    )
}

const countRows = async (client: postgres.ISql, name: string): Promise<number> => {
  const [found] = await client.unsafe<{ count: string }[]>(`select count(*) as count from ${name}`)
  return Number(found?.count)
}

interface Table {
  readonly name: string
  /** Quoted and comma-separated, without generated columns. */
  readonly columns: string
}

/** All tables, each after the tables that it references. */
const tablesInOrder = async (client: postgres.Sql): Promise<readonly Table[]> => {
  const tables = await client<(Table & { parents: string })[]>`
    select relname as name,
      (select string_agg(quote_ident(attname), ',') from pg_attribute
        where attrelid = pg_class.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns,
      coalesce((select string_agg(distinct parent.relname, ',') from pg_constraint
        join pg_class parent on parent.oid = confrelid
        where contype = 'f' and conrelid = pg_class.oid and confrelid <> conrelid), '') as parents
    from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname`
  const byName = new Map(tables.map((table) => [table.name, table]))
  const ordered = new Set<Table>()
  const add = (table: (typeof tables)[number]): void => {
    for (const name of table.parents.split(',')) {
      const parent = byName.get(name)
      if (parent !== undefined && !ordered.has(parent)) add(parent)
    }
    ordered.add(table)
  }
  for (const table of tables) add(table)
  return [...ordered]
}
