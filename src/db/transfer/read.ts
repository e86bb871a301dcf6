import type postgres from 'postgres'
import { createClient, type ServerConnection } from '../engine/connection.ts'
import { translateError } from '../engine/errors.ts'
import { type CatalogTable, prepareTransfer, quoted, readCatalog, type TableRows } from './catalog.ts'

/**
 * Reads all tables of a database in one snapshot, which has no transaction id: with one, every reader of events and changes would
 * stand still until it ends (shared/horizon.ts). The tables can be read one after the other until `read` resolves.
 *
 * Transaction ids mean nothing in another database, so they are read as 0, and whatever is ordered by them is ordered by other columns:
 * see `expressions`.
 *
 * @throws DatabaseUnavailable, and the errors of `read`
 */
export const readTables = async <T>(
  connection: ServerConnection,
  read: (tables: readonly TableRows[]) => Promise<T>,
  lines: ReadLines = copiedLines,
): Promise<T> => {
  const client = createClient(connection, { idle_timeout: 0 })
  // In the middle of a COPY, the driver fails to end the transaction: only the first error tells why.
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const readAll = async (transaction: postgres.TransactionSql): Promise<T> => {
    await prepareTransfer(transaction)
    const tables = await readCatalog(transaction)
    return read(
      tables.map((table) => ({
        name: table.name,
        columns: table.columns,
        rows: () => lines(transaction, { columns: columnsOf(table), source: sourceOf(table) }),
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

/** What is read of a table, in SQL. */
export interface Selection {
  readonly columns: readonly string[]
  readonly source: string
}

/** Reads lines of the text format of COPY. Each chunk ends with a line. */
export type ReadLines = (
  transaction: postgres.TransactionSql,
  selection: Selection,
) => AsyncIterable<Uint8Array>

/** PostgreSQL sends each row as a message, and the driver passes on whole messages. */
async function* copiedLines(
  transaction: postgres.TransactionSql,
  { columns, source }: Selection,
): AsyncGenerator<Uint8Array> {
  const stream = await transaction
    .unsafe(`copy (select ${columns.join(', ')} from ${source}) to stdout`)
    .readable()
  for await (const chunk of stream) yield Buffer.from(chunk)
  // The driver stops reading its socket when much is buffered, and goes on when the stream is read: not any more once it has ended.
  stream._read(0)
}

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
