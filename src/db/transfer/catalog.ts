import type postgres from 'postgres'

/** A table and its columns, without generated ones. */
export interface TableColumns {
  readonly name: string
  readonly columns: readonly string[]
}

/** A table whose rows can be read once. */
export interface TableRows extends TableColumns {
  /** Lines of the text format of COPY. Each chunk ends with a line. */
  rows(): AsyncIterable<Uint8Array>
}

export interface CatalogTable extends TableColumns {
  /** The columns with ids of transactions. */
  readonly transactions: ReadonlySet<string>
}

/**
 * Tables of no use in a copy, which has a history of its own: tombstones of tasks that a client may have seen, whose cursors are not
 * valid in the copy, and leases of processes that work on the original.
 */
const leftOut: ReadonlySet<string> = new Set([
  'change_history',
  'leases',
  'membership_tombstones',
  'task_tombstones',
])

/** The tables that a copy has. */
export const readCatalog = async (client: postgres.ISql): Promise<readonly CatalogTable[]> => {
  const rows = await client.unsafe<{ name: string; columns: string; transactions: string }[]>(`
    select relname as name,
      (select coalesce(json_agg(attname order by attnum), '[]') from pg_attribute
        where attrelid = pg_class.oid and attnum > 0 and not attisdropped and attgenerated = '')::text as columns,
      (select coalesce(json_agg(attname), '[]') from pg_attribute
        where attrelid = pg_class.oid and attnum > 0 and not attisdropped and atttypid = 'xid8'::regtype)::text as transactions
    from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname`)
  return rows
    .filter(({ name }) => !leftOut.has(name))
    .map(({ name, columns, transactions }) => ({
      name,
      columns: parseNames(columns),
      transactions: new Set(parseNames(transactions)),
    }))
}

const parseNames = (json: string): readonly string[] => JSON.parse(json) as string[]

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Settings of a transaction that reads or writes a whole database, and of the text that it reads. */
const settings = {
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  transaction_timeout: '0',
  datestyle: 'ISO',
  intervalstyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
}

/** Lifts the timeouts of a transaction, whatever is configured for the database or its user. Older servers lack some of them. */
export const prepareTransfer = async (transaction: postgres.TransactionSql): Promise<void> => {
  await transaction.unsafe(
    `select set_config(pg_settings.name, value, true)
    from pg_settings join json_each_text($1::text::json) wanted(name, value) on lower(pg_settings.name) = wanted.name`,
    [JSON.stringify(settings)],
  )
}
