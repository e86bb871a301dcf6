import { beginningOf, type EventPosition } from '../../domain/activity/event-positions.ts'
import { listReader, type Principal } from '../../domain/shared/permissions.ts'
import { allowsEvent, viewersOfEvent } from '../access/permissions.ts'
import type { Database } from '../engine/client.ts'
import { horizon } from '../shared/horizon.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { renderedRows } from '../statements/rendered-rows.ts'
import { expectRow } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import { hasEvents } from './event-readers.ts'
import { isSent } from './events.ts'
import { eventJson } from '../shared/read-models.ts'
import { aliasedTable, type SQL, sql } from '../schema/drizzle.ts'
import { changeHistory, events } from '../schema/tables.ts'

/**
 * Reads events for streams: those after a position, in the order of their transactions, up to the horizon (see horizon.ts).
 * Access is checked when an event is read.
 */

const event = aliasedTable(events, 'event')
const history = aliasedTable(changeHistory, 'history')

/** An event that at least one of the users can see. */
export interface StreamedEvent {
  readonly position: EventPosition
  readonly type: string
  /** The event as JSON text. */
  readonly json: string
}

const epoch = sql`coalesce((select ${history.epoch} from change_history history), 1)`

const position = { changed_in: 'xid8', ordinal: 'int8' } as const

const placeOf = ({ changedIn, ordinal }: EventPosition) => ({ changed_in: String(changedIn), ordinal })

const isAfter = (p: Placeholders<typeof position>): SQL =>
  sql`(${event.changed_in}, ${event.ordinal}) > (${p.changed_in}, ${p.ordinal}) and ${event.changed_in} < ${horizon}`

const selectStart = statement(
  'event_stream.select_start',
  { epoch: 'int', ...position },
  { epoch: 'int', is_known: 'bool', changed_in: 'text?', ordinal: 'text?' },
  (p) => {
    const isBeginning = sql`(${p.changed_in} = '0' and ${p.ordinal} = 0)`
    // Events are removed in order, oldest first, after at least a day.
    const isComplete = sql`coalesce(
      (select ${event.created_at} from events event order by ${event.changed_in}, ${event.ordinal} limit 1)
        > now() - interval '1 day', true)`
    return sql`
      select ${epoch} as epoch,
        ${p.epoch} = ${epoch} and (
          exists (select from events event where (${event.changed_in}, ${event.ordinal}) = (${p.changed_in}, ${p.ordinal}))
          or ${isBeginning} and ${isComplete}) as is_known,
        newest.changed_in::text, newest.ordinal::text
      from (values (true)) always left join lateral (
        select ${event.changed_in}, ${event.ordinal} from events event where ${event.changed_in} < ${horizon}
        order by ${event.changed_in} desc, ${event.ordinal} desc limit 1
      ) newest on true`
  },
)

/** The start of a stream. */
export interface StreamStart {
  /** The last event. */
  readonly newest: EventPosition
  /** Whether no event after the given position was removed. Proven if the event at the position still exists. */
  readonly isKnown: boolean
}

/** The last event, and whether a stream can begin after the one at `after`. */
export const selectStreamStart = async (db: Database, after: EventPosition): Promise<StreamStart> => {
  const row = expectRow(await selectStart(db, { epoch: after.epoch, ...placeOf(after) }))
  const { epoch, changed_in, ordinal, is_known } = row
  const newest =
    changed_in === null || ordinal === null
      ? beginningOf(epoch)
      : { epoch, changedIn: BigInt(changed_in), ordinal: Number(ordinal) }
  return { newest, isKnown: is_known }
}

const selectIsBehind = statement(
  'event_stream.select_is_behind',
  { epoch: 'int', ...position },
  { is_other: 'bool', is_behind: 'bool' },
  (p) => sql`
    select ${p.epoch} <> ${epoch} as is_other, ${hasEvents(isAfter(p))} as is_behind`,
)

/** Whether there are events after a position; null if it is of another epoch. */
export const hasEventsAfter = async (db: Database, after: EventPosition): Promise<boolean | null> => {
  const [row] = await selectIsBehind(db, { epoch: after.epoch, ...placeOf(after) })
  return row === undefined || row.is_other ? null : row.is_behind
}

const pageColumns = { changed_in: 'text', place: 'int8', type: 'text', json: 'text?' } as const

/**
 * The common table expressions `numbered` and `rendered`: the first events after a position, and the JSON of those that meet
 * `isSeen`, a condition on columns of `numbered`.
 */
const eventsAfter = (
  p: Placeholders<typeof position> & { readonly limit: SQL },
  {
    columns,
    isSeen,
    maxOctets,
  }: { readonly columns: SQL; readonly isSeen: SQL; readonly maxOctets?: number },
): SQL => {
  const place = sql`(numbered.changed_in, numbered.place)`
  const json = sql`(
    select ${eventJson(event)} from events event
    where ${isSeen} and (${event.changed_in}, ${event.ordinal}) = ${place})`
  return sql`
    with recursive numbered as (
      select ${event.changed_in}, ${event.ordinal} as place, ${event.type}, ${columns},
        row_number() over (order by ${event.changed_in}, ${event.ordinal}) as ordinal
      from (
        select * from events event where ${isAfter(p)} order by ${event.changed_in}, ${event.ordinal} limit ${p.limit}
      ) event
    ), ${renderedRows(json, p.limit, maxOctets)}`
}

const noSession = { in_session: sql.raw('false') }

const selectForViewers = statement(
  'event_stream.select_for_viewers',
  { ...position, users: 'uuid[]', for_admins: 'bool', limit: 'int' },
  { ...pageColumns, viewers: 'text', is_for_admins: 'bool' },
  (p) => {
    const viewers = sql`case when ${isSent(event)} then array_to_string(array(
      select user_id from (${viewersOfEvent(event)}) viewer where user_id = any(${p.users})), ' ') else '' end`
    const admin = { ...noSession, caller: sql.raw('null::uuid'), is_admin: sql.raw('true') }
    const isForAdmins = sql`(${p.for_admins} and ${isSent(event)} and ${allowsEvent('event.see', admin, event)})`
    return sql`
      ${eventsAfter(p, {
        columns: sql`${viewers} as viewers, ${isForAdmins} as is_for_admins`,
        isSeen: sql`(numbered.viewers <> '' or numbered.is_for_admins)`,
      })}
      select changed_in::text, place, type, json, viewers, is_for_admins
      from numbered join rendered using (ordinal) order by ordinal`
  },
)

/** An event, and which of the given users can see it. */
export interface SharedEvent extends StreamedEvent {
  readonly viewers: readonly string[]
  /** Whether it belongs on the streams of administrators that have all events. */
  readonly isForAdmins: boolean
}

/** The visible events after a position, and the position after all events that were read, visible or not. */
export interface EventPage<E extends StreamedEvent> {
  readonly events: readonly E[]
  readonly end: EventPosition
  /** Whether there were no events at all, visible or not. */
  readonly isEmpty: boolean
}

interface PageRow {
  readonly changed_in: string
  readonly place: number
  readonly type: string
  readonly json: string | null
}

/** Builds a page. It can have fewer rows than the limit, if their JSON is long. */
const pageOf = <R extends PageRow, E extends StreamedEvent>(
  rows: readonly R[],
  after: EventPosition,
  complete: (event: StreamedEvent, row: R) => E,
): EventPage<E> => {
  const positionOf = ({ changed_in, place }: R): EventPosition => ({
    epoch: after.epoch,
    changedIn: BigInt(changed_in),
    ordinal: place,
  })
  const last = rows.at(-1)
  return {
    events: rows.flatMap((row) =>
      row.json === null ? [] : [complete({ position: positionOf(row), type: row.type, json: row.json }, row)],
    ),
    end: last === undefined ? after : positionOf(last),
    isEmpty: last === undefined,
  }
}

/** The next events after a position, each with those of `users` who can see it. */
export const selectEventsForViewers = async (
  db: Database,
  {
    after,
    users,
    forAdmins,
    limit,
  }: {
    readonly after: EventPosition
    readonly users: readonly string[]
    readonly forAdmins: boolean
    readonly limit: number
  },
): Promise<EventPage<SharedEvent>> =>
  pageOf(
    await selectForViewers(db, { ...placeOf(after), users, for_admins: forAdmins, limit }),
    after,
    (event, row) => ({
      ...event,
      viewers: row.viewers === '' ? [] : row.viewers.split(' '),
      isForAdmins: row.is_for_admins,
    }),
  )

/** Octets of JSON per read of a stream. Small, because many slow clients may catch up at the same time. */
const maxOctetsForCaller = 65_536

const selectForCaller = statement(
  'event_stream.select_for_caller',
  { ...position, caller: 'uuid', is_admin: 'bool', limit: 'int' },
  pageColumns,
  (p) => sql`
    ${eventsAfter(p, {
      columns: sql`(${isSent(event)} and ${allowsEvent('event.see', { ...p, ...noSession }, event)}) as is_seen`,
      isSeen: sql`numbered.is_seen`,
      maxOctets: maxOctetsForCaller,
    })}
    select changed_in::text, place, type, json from numbered join rendered using (ordinal) order by ordinal`,
)

/** The next events after a position that one user can see; with `all`, those that administrators can see. */
export const selectEventsForCaller = async (
  db: Database,
  {
    principal,
    all,
    after,
    limit,
  }: {
    readonly principal: Principal
    readonly all: boolean
    readonly after: EventPosition
    readonly limit: number
  },
): Promise<EventPage<StreamedEvent>> => {
  const { userId, role } = listReader(principal, { all })
  const rows = await selectForCaller(db, {
    ...placeOf(after),
    caller: userId,
    is_admin: role === 'admin',
    limit,
  })
  return pageOf(rows, after, (event) => event)
}
