import { type Gap, positionAtEnd, positionIn, positionsIn } from '../domain/positions.ts'
import { unionAll } from './engine/conditions.ts'
import { DatabaseUnavailable } from './engine/errors.ts'
import type { Row, Values } from './engine/parameters.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/**
 * Moves rows of a manually ordered list: tasks and sections. A move reads the two neighbours of its destination: those of a section
 * under the lock of the project; those of a task without a lock, so that it writes only if they have not changed, and otherwise
 * starts again. Moves of tasks into the same gap do not conflict, since their positions differ.
 */

/** Where a row goes: next to an anchor, or to the end of its list. */
export type Destination =
  | { readonly side: 'before' | 'after'; readonly anchor: string }
  | { readonly side: 'end'; readonly anchor: null }

/** The destination that a request names with at most one of two ids. */
export const destinationOf = ({ before, after }: { before?: string; after?: string }): Destination => {
  if (before !== undefined) return { side: 'before', anchor: before }
  return after === undefined ? { side: 'end', anchor: null } : { side: 'after', anchor: after }
}

export const destinationParameters = { side: 'text', anchor: 'uuid?' } as const

/** A list: the rows of a table that meet a condition. An index has them in the order of `position` and `id`. */
export interface OrderedList {
  readonly table: SQL
  readonly holds: (row: SQL) => SQL
}

/** A row to move, and its destination. */
interface Move {
  readonly id: SQL
  readonly side: SQL
  readonly anchor: SQL
}

const item = sql.raw('item')
const place = (row: SQL): SQL => sql`(${row}.position, ${row}.id)`
const nextFirst = sql`item.position asc nulls first, item.id asc nulls first`
const previousFirst = sql`item.position desc nulls last, item.id desc nulls last`

const listed = ({ table, holds }: OrderedList, { id }: Move, condition: SQL): SQL =>
  sql`select item.id, item.position from ${table} item where ${holds(item)} and item.id <> ${id} and ${condition}`

const anchorOf = (list: OrderedList, move: Move): SQL => listed(list, move, sql`item.id = ${move.anchor}`)

/** Columns of `joinGap`. */
export const gapColumns = {
  present: 'text?',
  anchor_id: 'text?',
  anchor_position: 'text?',
  neighbour_id: 'text?',
  neighbour_position: 'text?',
} as const

export const gapFields = sql`moving.position as present, anchor.id::text as anchor_id, anchor.position as anchor_position,
  neighbour.id::text as neighbour_id, neighbour.position as neighbour_position`

/**
 * Joins the rows around the destination of a move: `anchor`, if it is in the list, and `neighbour` on its other side; and `moving`,
 * the row itself, if it is already in the list.
 */
export const joinGap = (list: OrderedList, move: Move): SQL => {
  const nearest = (side: string, condition: SQL, order: SQL): SQL =>
    sql`(${listed(list, move, sql`${move.side} = ${sql.raw(`'${side}'`)} and ${condition}`)} order by ${order} limit 1)`
  const anchor = place(sql`anchor`)
  const { table, holds } = list
  return sql`
    left join lateral (select item.position from ${table} item where ${holds(item)} and item.id = ${move.id}) moving on true
    left join lateral (${anchorOf(list, move)}) anchor on true
    left join lateral (${unionAll([
      nearest('before', sql`${place(item)} < ${anchor}`, previousFirst),
      nearest('after', sql`${place(item)} > ${anchor}`, nextFirst),
      nearest('end', sql`true`, previousFirst),
    ])}) neighbour on true`
}

/** A row at a position. */
interface Placed {
  readonly id: string
  readonly position: string
}

/** Parameters of the statement that writes a position. `position` is null if the gap is full; `neighbours` are as they were read. */
export const placeParameters = { position: 'text?', neighbours: 'json' } as const

type PlaceValues = Values<typeof placeParameters>

/** An empty list, or one that the caller cannot see. */
const noGap = {
  present: null,
  anchor_id: null,
  anchor_position: null,
  neighbour_id: null,
  neighbour_position: null,
}

const placed = (id: string | null, position: string | null): readonly Placed[] =>
  id === null || position === null ? [] : [{ id, position }]

/** The position of a row in a gap: the present one if the row is already there. Null if there is no room. */
const positionFor = (present: string | null, gap: Gap): string | null => {
  const isInGap =
    present !== null &&
    (gap.after === null || gap.after < present) &&
    (gap.before === null || present < gap.before)
  return isInGap ? present : positionIn(gap)
}

/** The position at a destination: the present one of a row that is already there. Null if there is no room. */
export const positionAt = (side: Destination['side'], row: Row<typeof gapColumns>): string | null => {
  const { present, anchor_position: anchor, neighbour_position: neighbour } = row
  if (side === 'end' || anchor === null)
    return present !== null && (neighbour === null || neighbour < present)
      ? present
      : positionAtEnd(neighbour)
  return positionFor(
    present,
    side === 'before' ? { after: neighbour, before: anchor } : { after: anchor, before: neighbour },
  )
}

/** The values to write. If the anchor is not in the list, the statement that writes them refuses the move. */
const placeIn = (side: Destination['side'], row: Row<typeof gapColumns>): PlaceValues => {
  const { anchor_id, anchor_position, neighbour_id, neighbour_position } = row
  return {
    position: positionAt(side, row),
    neighbours: {
      rows: [...placed(anchor_id, anchor_position), ...placed(neighbour_id, neighbour_position)],
    },
  }
}

/** The rows of the parameter `neighbours`, as `read`. It is an object, since the driver sends an array as a PostgreSQL array. */
export const placedRows = (neighbours: SQL): SQL =>
  sql`jsonb_to_recordset(${neighbours} -> 'rows') as read (id uuid, position text)`

/**
 * The last refusals of the statement that writes, as WHEN branches: the neighbours have moved, or there is no room between them.
 * `rows` are the current neighbours.
 */
export const refusalsOfPlace = (
  { position, neighbours }: { readonly position: SQL; readonly neighbours: SQL },
  rows: SQL,
): SQL => sql`
  when exists (
    select from ${placedRows(neighbours)}
    where (read.id, read.position collate "C") not in (select id, position from ${rows})
  ) then 'neighbours_moved'
  when ${position} is null then 'gap_full'`

/** Maximum number of attempts to place a row whose neighbours keep moving. */
const maxAttempts = 20

/** Numbers of rows on each side of a gap to rebalance. The first one that makes room is used. */
const windows = [16, 256, 4_096]

/** The statements of a table for placing a row. `id` is the id of the row. */
interface Placing<R> {
  /** Reads the gap. Undefined if the caller cannot see the list. */
  readonly readGap: (id: string) => Promise<Row<typeof gapColumns> | undefined>
  readonly write: (place: (id: string) => Promise<PlaceValues>) => Promise<R>
  readonly outcomeOf: (written: R) => string | undefined
  /** Reads `size` rows, and one more, on each side of the gap. */
  readonly readWindow: (id: string, size: number) => Promise<Row<typeof windowColumns> | undefined>
  readonly rebalance: (moved: { readonly rows: readonly NewPosition[] }) => Promise<unknown>
}

/**
 * Places a row.
 *
 * @throws DatabaseUnavailable when its neighbours keep moving; nothing was changed
 */
export const placeRow = async <R>(side: Destination['side'], placing: Placing<R>): Promise<R> => {
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    let placedId = ''
    const written = await placing.write(async (id) => {
      placedId = id
      return placeIn(side, (await placing.readGap(id)) ?? noGap)
    })
    const outcome = placing.outcomeOf(written)
    if (outcome === 'gap_full') await rebalanceAround(placedId, placing)
    else if (outcome !== 'neighbours_moved') return written
  }
  throw new DatabaseUnavailable({ cause: new Error('the neighbours of the row kept moving') })
}

/** Columns of `windowFields`: JSON arrays of rows, the nearest first. */
export const windowColumns = { previous: 'text', next: 'text' } as const

/** The rows on both sides of a gap, the anchor included. */
export const windowFields = (list: OrderedList, move: Move, size: SQL): SQL => {
  const side = (anchorSide: string, sign: string, order: SQL): SQL => {
    const condition = sql`(${place(item)} ${sql.raw(sign)} ${place(sql`anchor`)}
      or item.id = anchor.id and ${move.side} = ${sql.raw(`'${anchorSide}'`)})`
    const rows = sql`${listed(list, move, condition)} order by ${order} limit ${size} + 1`
    return sql`(select coalesce(json_agg(item), '[]')::text from (${rows}) item)`
  }
  return sql`${side('after', '<', previousFirst)} as previous, ${side('before', '>', nextFirst)} as next`
}

/** Joins `anchor` alone. */
export const joinAnchor = (list: OrderedList, move: Move): SQL =>
  sql`join lateral (${anchorOf(list, move)}) anchor on true`

/** A new position of a row, to make room in a gap. */
interface NewPosition {
  readonly id: string
  readonly from: string
  readonly to: string
}

/** Spaces the rows around a gap evenly. `rebalance` does nothing if one of them is moved concurrently. */
export const rebalanceAround = async (
  id: string,
  { readWindow, rebalance }: Pick<Placing<never>, 'readWindow' | 'rebalance'>,
): Promise<void> => {
  for (const size of windows) {
    const window = await readWindow(id, size)
    if (window === undefined) return
    const sides = [window.previous, window.next].map((json) => JSON.parse(json) as readonly Placed[])
    const [previous = [], next = []] = sides.map((rows) => rows.slice(0, size))
    // The bounds: the rows after the window, or null at the start or end of the list.
    const [after, before] = sides.map((rows) => rows[size]?.position ?? null)
    const rows = [...previous.toReversed(), ...next]
    const positions = positionsIn({ after: after ?? null, before: before ?? null }, rows.length)
    if (positions !== null) {
      await rebalance({
        rows: rows.map(({ id, position: from }, index) => ({ id, from, to: positions[index] ?? from })),
      })
      return
    }
  }
}

/** Writes the positions of `moved`: all of them, unless a row has been moved meanwhile. */
export const rebalanceRows = (table: SQL, moved: SQL): SQL => sql`
  with moved as (
    select * from jsonb_to_recordset(${moved} -> 'rows') as row (id uuid, "from" text, "to" text)
  ), present as (
    select item.id from ${table} item join moved on moved.id = item.id
    where item.position = moved."from" collate "C" order by item.id for no key update of item
  )
  update ${table} item set position = moved."to" from moved
  where item.id = moved.id and (select count(*) from present) = (select count(*) from moved)`
