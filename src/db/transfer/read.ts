import type postgres from 'postgres'
import { type ConnectionOptions, createClient } from '../engine/connection.ts'
import { translateError } from '../engine/errors.ts'
import { type CatalogTable, prepareTransfer, quoted, readCatalog, type TableRows } from './catalog.ts'

/**
 * Reads all tables of a database in one snapshot, which has no transaction id: with one, every reader of events and changes would
 * stand still until it ends (engine/horizon.ts). The tables can be read one after the other until `read` resolves.
 *
 * Transaction ids mean nothing in another database, so they are read as 0, and whatever is ordered by them is ordered by other columns:
 * see `expressions`.
 *
 * @throws DatabaseUnavailable, and the errors of `read`
 */
export const readTables = async <T>(
  connection: ConnectionOptions,
  read: (tables: readonly TableRows[]) => Promise<T>,
): Promise<T> => {
  const client = createClient(connection, { idle_timeout: 0 })
  const lines = connection.kind === 'server' ? copiedLines : fetchedLines
  // In the middle of a COPY, the driver fails to end the transaction: only the first error tells why.
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const readAll = async (transaction: postgres.TransactionSql): Promise<T> => {
    await prepareTransfer(transaction)
    const tables = await readCatalog(transaction)
    return read(
      tables.map((table) => ({
        name: table.name,
        columns: table.columns,
        rows: () => lines(transaction, table),
      })),
    )
  }
  try {
    await client
      .begin('isolation level repeatable read read only', (transaction) =>
        readAll(transaction).then(resolve, reject),
      )
      .catch(reject)
    return await promise
  } catch (error) {
    throw translateError(error)
  } finally {
    await client.end({ timeout: 1 })
  }
}

/** PostgreSQL sends each row as a message, and the driver passes on whole messages. */
async function* copiedLines(
  transaction: postgres.TransactionSql,
  table: CatalogTable,
): AsyncGenerator<Uint8Array> {
  const stream = await transaction
    .unsafe(`copy (select ${columnsOf(table).join(', ')} from ${sourceOf(table)}) to stdout`)
    .readable()
  for await (const chunk of stream) yield Buffer.from(chunk)
}

/** Rows per FETCH. The largest rows, tasks, have up to 64 KiB. */
const batch = 200

/** The same for the embedded database, which would hold a whole table in memory for a COPY. */
async function* fetchedLines(
  transaction: postgres.TransactionSql,
  table: CatalogTable,
): AsyncGenerator<Uint8Array> {
  const escaped = [
    ['\\', '\\\\'],
    ['\t', '\\t'],
    ['\n', '\\n'],
    ['\r', '\\r'],
  ] as const
  const values = columnsOf(table).map((column) =>
    escaped.reduce(
      (value, [from, to]) => `replace(${value}, ${literal(from)}, ${literal(to)})`,
      `(${column})::text`,
    ),
  )
  await transaction.unsafe(
    `declare lines no scroll cursor for
    select array_to_string(array[${values.join(', ')}], ${literal('\t')}, ${literal('\\N')}) || chr(10) as line
    from ${sourceOf(table)}`,
  )
  for (;;) {
    const rows = await transaction.unsafe<{ line: string }[]>(`fetch ${batch} from lines`)
    if (rows.length === 0) break
    yield Buffer.from(rows.map(({ line }) => line).join(''))
  }
  await transaction.unsafe('close lines')
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

const numberedEvents = `(
  select changed_in, ordinal, row_number() over (order by changed_in, ordinal) as number from public.events)`

/**
 * What is read instead of a column of `item`. Events are ordered by transactions and then by ordinals, so the ordinals get that order.
 * A reader continues after the last event that it has read, and a delivery keeps its event; that of a deleted event has none.
 */
const expressions: Readonly<
  Record<string, { readonly join?: string; readonly columns: Record<string, string> }>
> = {
  events: { columns: { ordinal: 'row_number() over (order by item.changed_in, item.ordinal)' } },
  event_readers: {
    columns: {
      ordinal: `(select count(*) from public.events event where (event.changed_in, event.ordinal) <= (item.changed_in, item.ordinal))`,
    },
  },
  webhook_deliveries: {
    join: `left join ${numberedEvents} event on (event.changed_in, event.ordinal) = (item.event_changed_in, item.event_ordinal)`,
    columns: { event_ordinal: 'case when item.event_ordinal is not null then coalesce(event.number, 0) end' },
  },
}

const columnsOf = ({ name, columns, transactions }: CatalogTable): readonly string[] =>
  columns.map((column) => {
    const value = `item.${quoted(column)}`
    if (transactions.has(column)) return `case when ${value} is not null then '0'::xid8 end`
    return expressions[name]?.columns[column] ?? value
  })

const sourceOf = ({ name }: CatalogTable): string =>
  `public.${quoted(name)} item ${expressions[name]?.join ?? ''}`
