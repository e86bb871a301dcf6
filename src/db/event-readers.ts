import { countingStatement } from './engine/batches.ts'
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
  /** Whether something may be made of the row `event`: cheap to ask, and true too often rather than too seldom. */
  readonly isOfInterest: SQL
  readonly make: SQL
}

/**
 * Compiles a reader, which reads until it is up to date. Its first start begins at the present.
 *
 * Most events interest no reader, and starting the statement that makes something takes longer than writing a task does. So another
 * one passes what is of no interest.
 */
export const eventReader = ({ name, reader: readerName, limit, isOfInterest, make }: Step) => {
  const ofReader = sql`${reader.name} = ${sql.raw(`'${readerName}'`)}`
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
  const batch = sql`
    reader as materialized (
      select * from event_readers reader where ${ofReader} and ${hasEvents(isUnread)} for update skip locked
    ), batch as materialized (
      select event.* from reader cross join lateral (
        select * from events event where ${isUnread}
        order by ${event.changed_in}, ${event.ordinal} limit ${sql.raw(String(limit))}
      ) event
    )`
  /** Moves the reader behind the last of some events of the batch. */
  const move = (events: SQL): SQL => sql`
    update event_readers reader set ${assignments<'event_readers'>({
      changed_in: last.changed_in,
      ordinal: last.ordinal,
    })}
    from (${events} order by ${last.changed_in} desc, ${last.ordinal} desc limit 1) last where ${ofReader}`
  const pass = statement(
    `${name}_pass`,
    {},
    { has_begun: 'bool', events: 'int8', is_of_interest: 'bool' },
    () => sql`
      with ${batch}, interesting as materialized (
        select ${event.changed_in}, ${event.ordinal} from batch event where ${isOfInterest}
        order by ${event.changed_in}, ${event.ordinal} limit 1
      ), moved as (
        ${move(sql`
          select * from batch last where not exists (
            select from interesting where (interesting.changed_in, interesting.ordinal) <= (${last.changed_in}, ${last.ordinal}))`)}
      )
      select exists (select from event_readers reader where ${ofReader}) as has_begun,
        (select count(*) from batch) as events, exists (select from interesting) as is_of_interest`,
  )
  const read = statement(
    name,
    {},
    { events: 'int8' },
    () => sql`
      with ${batch}, moved as (${move(sql`select * from batch last`)}), ${make}
      select count(*) as events from batch`,
  )
  /** The number of events that were passed or read; fewer than `limit` if these were the last. */
  const step = async (db: Database): Promise<number> => {
    const [passed] = await pass(db, {})
    if (passed?.has_begun !== true) {
      await begin(db, {})
      return 0
    }
    if (!passed.is_of_interest) return passed.events
    const [made] = await read(db, {})
    return made?.events ?? 0
  }
  return async (db: Database, stop: AbortSignal): Promise<void> => {
    while (!stop.aborted && (await step(db)) >= limit);
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
