import { countingStatement, untilNone } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { horizon } from './engine/horizon.ts'
import { statement, type StatementName } from './engine/statement.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/**
 * Background readers of events. Each has a row that says how far it has read. The statement that reads also moves the row, and
 * makes of the events what the reader is for, so that nothing is made twice or not at all, wherever it is interrupted. Several
 * instances take turns: a row that another one holds is left to it.
 */

const event = columnsOf<'events'>(sql.raw('event'))
const reader = columnsOf<'event_readers'>(sql.raw('reader'))
const last = columnsOf<'events'>(sql.raw('last'))

const isUnread = sql`(${event.changed_in}, ${event.ordinal}) > (${reader.changed_in}, ${reader.ordinal}) and ${event.changed_in} < ${horizon}`

/**
 * Whether any row `event` after a position meets a condition. Not `exists`: its generic plan assumes that many rows match and scans the
 * table for the first one, the whole table if there is none. ORDER BY makes it read the index.
 */
export const hasEvents = (condition: SQL): SQL => sql`coalesce((
  select true from events event where ${condition} order by ${event.changed_in}, ${event.ordinal} limit 1), false)`

/** A step of a reader: reads the next events, up to `limit`, as `batch`; `make` is the common table expressions that use them. */
interface Step {
  readonly name: StatementName
  readonly reader: string
  readonly limit: number
  readonly make: SQL
}

/** Compiles a reader, which reads until it is up to date. Its first start begins at the present. */
export const eventReader = ({ name, reader: readerName, limit, make }: Step) => {
  const ofReader = sql`${reader.name} = ${sql.raw(`'${readerName}'`)}`
  const hasUnread = hasEvents(isUnread)
  const { columns, values } = insertion<'event_readers'>({
    name: sql.raw(`'${readerName}'`),
    changed_in: horizon,
    ordinal: sql`0`,
  })
  const begin = statement(
    `${name}_begin`,
    {},
    {},
    () => sql`insert into event_readers (${columns}) values (${values}) on conflict do nothing`,
  )
  // A statement of its own, because that of the reader takes ten times as long to start, also if there is nothing to read.
  const check = statement(
    `${name}_check`,
    {},
    { has_unread: 'bool' },
    () => sql`select ${hasUnread} as has_unread from event_readers reader where ${ofReader}`,
  )
  const read = statement(
    name,
    {},
    { events: 'int8' },
    () => sql`
      with reader as materialized (
        select * from event_readers reader where ${ofReader} and ${hasUnread} for update skip locked
      ), batch as materialized (
        select event.* from reader cross join lateral (
          select * from events event where ${isUnread}
          order by ${event.changed_in}, ${event.ordinal} limit ${sql.raw(String(limit))}
        ) event
      ), moved as (
        update event_readers reader set ${assignments<'event_readers'>({
          changed_in: last.changed_in,
          ordinal: last.ordinal,
        })}
        from (select * from batch last order by ${last.changed_in} desc, ${last.ordinal} desc limit 1) last where ${ofReader}
      ), ${make}
      select count(*) as events from batch`,
  )
  return async (db: Database, stop: AbortSignal): Promise<void> => {
    const [place] = await check(db, {})
    if (place === undefined) await begin(db, {})
    if (place?.has_unread === true) await untilNone(async () => (await read(db, {}))[0]?.events ?? 0, stop)
  }
}

const isAhead = sql`${reader.changed_in} > pg_snapshot_xmax(pg_current_snapshot())`

// The next event may have a lower number than the last one that was read; some are then read again.
const orderByOrdinals = statement(
  'event_readers.order_by_ordinals',
  {},
  {},
  () => sql`
    update event_readers reader set ${assignments<'event_readers'>({
      ordinal: sql`least(${reader.ordinal}, (
        select min(${event.ordinal}) - 1 from events event
        where (${event.changed_in}, ${event.ordinal}) > (${reader.changed_in}, ${reader.ordinal})
          and ${event.changed_in} >= pg_snapshot_xmax(pg_current_snapshot())))`,
    })} where ${isAhead}`,
)

const restamp = countingStatement(
  'event_readers.restamp',
  {},
  () => sql`
    update event_readers reader set ${assignments<'event_readers'>({ changed_in: sql`'0'` })} where ${isAhead} returning 1`,
)

/**
 * Keeps the places of readers while `restampEvents` orders the events of another database by their ordinals alone. A reader that is
 * ahead reads nothing meanwhile.
 */
export const restampReaders = async (db: Database, restampEvents: () => Promise<void>): Promise<void> => {
  await orderByOrdinals(db, {})
  await restampEvents()
  await restamp(db, {})
}
