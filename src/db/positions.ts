import { type Gap, positionAtEnd, positionIn, positionsIn } from '../domain/positions.ts'
import { unionAll } from './engine/conditions.ts'
import type { Row } from './engine/parameters.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/**
 * Places of rows in a manually ordered list: tasks and sections. A move reads the two neighbours of its destination: those of a section
 * under the lock of the project; of a task, under a lock of the row itself and of its anchor, while the other neighbour may move away.
 * Moves into the same gap do not conflict, since their positions differ.
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

/** The position of a row in a gap: the present one if the row is already there. Null if there is no room. */
const positionFor = (present: string | null, gap: Gap): string | null => {
  const isInGap =
    present !== null &&
    (gap.after === null || gap.after < present) &&
    (gap.before === null || present < gap.before)
  return isInGap ? present : positionIn(gap)
}

/** The position at a destination: the present one of a row that is already there. Null if there is no room. */
const positionAt = (side: Destination['side'], row: Row<typeof gapColumns>): string | null => {
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

/** Numbers of rows on each side of a gap to rebalance. The first one that makes room is used. */
const windows = [16, 256, 4_096]

/** There is no room at a destination: the rows around it have to make some. */
export class NoRoom extends Error {
  override readonly name = 'NoRoom'
}

/**
 * The position of a row at its destination; null if its anchor is not in the list.
 *
 * @throws NoRoom
 */
export const findPosition = async (
  { side, anchor }: Destination,
  readGap: () => Promise<Row<typeof gapColumns>>,
): Promise<string | null> => {
  const gap = await readGap()
  if (anchor !== null && gap.anchor_id === null) return null
  const position = positionAt(side, gap)
  if (position === null) throw new NoRoom('There is no room between the rows')
  return position
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
export interface NewPosition {
  readonly id: string
  readonly from: string
  readonly to: string
}

interface Rebalancing {
  /** Reads `size` rows, and one more, on each side of the gap. */
  readonly readWindow: (size: number) => Promise<Row<typeof windowColumns> | undefined>
  readonly spread: (rows: readonly NewPosition[]) => Promise<void>
}

/** Spaces the rows around a gap evenly. */
export const rebalance = async ({ readWindow, spread }: Rebalancing): Promise<void> => {
  for (const size of windows) {
    const window = await readWindow(size)
    if (window === undefined) return
    const sides = [window.previous, window.next].map((json) => JSON.parse(json) as readonly Placed[])
    const [previous = [], next = []] = sides.map((rows) => rows.slice(0, size))
    // The bounds: the rows after the window, or null at the start or end of the list.
    const [after, before] = sides.map((rows) => rows[size]?.position ?? null)
    const rows = [...previous.toReversed(), ...next]
    const positions = positionsIn({ after: after ?? null, before: before ?? null }, rows.length)
    if (positions !== null) {
      const moved = rows.map(({ id, position: from }, index) => ({ id, from, to: positions[index] ?? from }))
      await spread(moved.filter(({ from, to }) => from !== to))
      return
    }
  }
}
