import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { horizon } from '../shared/horizon.ts'
import { statement, type StatementName } from '../statements/statement.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { eventReaders, events } from '../schema/tables.ts'

/**
 * Background readers of events, such as the one that makes notifications. Each has a row with its position. One statement reads
 * events, writes the results and moves the position, so that a crash neither loses nor repeats results. Instances take turns: they
 * skip a reader whose row is locked by another one.
 */

const event = aliasedTable(events, 'event')
const reader = aliasedTable(eventReaders, 'reader')
const known = aliasedTable(eventReaders, 'known')
const last = aliasedTable(events, 'last')

const isUnread = sql`(${event.changed_in}, ${event.ordinal}) > (${reader.changed_in}, ${reader.ordinal}) and ${event.changed_in} < ${horizon}`

/**
 * Whether any row `event` after a position meets a condition. Not `exists`, whose generic plan assumes that many rows match, and
 * scans the table for the first one; if there is none, the whole table. ORDER BY makes it use the index.
 */
export const hasEvents = (condition: SQL): SQL => sql`coalesce((
  select true from events event where ${condition} order by ${event.changed_in}, ${event.ordinal} limit 1), false)`

/** A step of a reader. It reads up to `limit` events as `batch`; `make` has the common table expressions that write the results. */
interface Step {
  readonly name: StatementName
  readonly reader: string
  readonly limit: number
  /** Whether the row `event` may have results. Must be cheap; may have false positives, but no false negatives. */
  readonly isOfInterest: SQL
  readonly make: SQL
}

/**
 * Compiles a reader, which reads until it is up to date. Its first start begins with the next event.
 *
 * Most events have no results for a reader, and even starting the statement that writes results takes longer than writing a task.
 * A second, cheap statement therefore skips events without results.
 */
export const eventReader = ({ name, reader: readerName, limit, isOfInterest, make }: Step) => {
  const isThisReader = sql`${reader.name} = ${sql.raw(`'${readerName}'`)}`
  const begin = builtStatement(`${name}_begin`, {}, (db) =>
    db
      .insert(eventReaders)
      .values({ name: readerName, changed_in: horizon, ordinal: sql`0` })
      .onConflictDoNothing(),
  )
  // The statement must see all results of earlier events. If the position has moved between its snapshot and its lock, it does not.
  const isCurrent = sql`(${reader.changed_in}, ${reader.ordinal}) = (
    select ${known.changed_in}, ${known.ordinal} from event_readers known where ${known.name} = ${sql.raw(`'${readerName}'`)})`
  const batch = sql`
    reader as materialized (
      select * from event_readers reader where ${isThisReader} and ${isCurrent} and ${hasEvents(isUnread)} for update skip locked
    ), batch as materialized (
      select event.* from reader cross join lateral (
        select * from events event where ${isUnread}
        order by ${event.changed_in}, ${event.ordinal} limit ${sql.raw(String(limit))}
      ) event
    )`
  /** Moves the reader after the last of these events. */
  const move = (unread: SQL): SQLWrapper =>
    builder
      .update(reader)
      .set({ changed_in: last.changed_in, ordinal: last.ordinal })
      .from(sql`(${unread} order by ${last.changed_in} desc, ${last.ordinal} desc limit 1) last`)
      .where(isThisReader)
  const pass = statement(
    `${name}_pass`,
    {},
    { has_begun: 'bool', events: 'int8', is_of_interest: 'bool' },
    () => sql`
      with ${batch}, interesting as materialized (
        select ${event.changed_in}, ${event.ordinal} from batch event where ${isOfInterest}
        order by ${event.changed_in}, ${event.ordinal} limit 1
      ), moved as ${move(sql`
        select * from batch last where not exists (
          select from interesting where (interesting.changed_in, interesting.ordinal) <= (${last.changed_in}, ${last.ordinal}))`)}
      select exists (select from event_readers reader where ${isThisReader}) as has_begun,
        (select count(*) from batch) as events, exists (select from interesting) as is_of_interest`,
  )
  const read = statement(
    name,
    {},
    { events: 'int8' },
    () => sql`
      with ${batch}, moved as ${move(sql`select * from batch last`)}, ${make}
      select count(*) as events from batch`,
  )
  /** The number of events that were skipped or read; fewer than `limit` if there are no more. */
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

// The next event can have a lower transaction id than the last one that was read. Some events are then read again.
const orderByOrdinals = builtStatement('event_readers.order_by_ordinals', {}, (db) =>
  db
    .update(reader)
    .set({
      ordinal: sql`least(${reader.ordinal}, (
        select min(${event.ordinal}) - 1 from events event
        where (${event.changed_in}, ${event.ordinal}) > (${reader.changed_in}, ${reader.ordinal})
          and ${event.changed_in} >= pg_snapshot_xmax(pg_current_snapshot())))`,
    })
    .where(isAhead),
)

const restamp = builtStatement('event_readers.restamp', {}, (db) =>
  db.update(reader).set({ changed_in: '0' }).where(isAhead),
)

/**
 * Keeps the positions of readers valid while `restampEvents` renumbers the events of another database by their ordinals alone. A
 * reader with a later position reads nothing in the meantime.
 */
export const restampReaders = async (db: Database, restampEvents: () => Promise<void>): Promise<void> => {
  await orderByOrdinals(db, {})
  await restampEvents()
  await restamp(db, {})
}
