import { type Gap, positionAtEnd, positionIn, positionsIn } from '../../domain/shared/positions.ts'
import { unionAll } from '../statements/conditions.ts'
import type { Placeholders, Row } from '../statements/parameters.ts'
import { expectRow } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import type { Runner } from '../engine/transaction.ts'
import { type PgTable, type SQL, sql } from '../schema/drizzle.ts'

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

const moveParameters = { list: 'uuid', id: 'uuid', side: 'text', anchor: 'uuid?' } as const

/** A list, a row that goes into it, and its destination there. */
export type Move = Destination & { readonly list: string; readonly id: string }

type P = Placeholders<typeof moveParameters>

/** The lists of a table. An index has the rows of each in the order of `position` and `id`. */
interface OrderedLists {
  readonly table: PgTable
  /** Whether the row `item` is in the list with an id. */
  readonly isListed: (list: SQL) => SQL
  /** Stores positions that make room between rows. */
  readonly spread: (db: Runner, rows: readonly NewPosition[]) => Promise<unknown>
}

const item = sql.raw('item')
const place = (row: SQL): SQL => sql`(${row}.position, ${row}.id)`
const nextFirst = sql`item.position asc nulls first, item.id asc nulls first`
const previousFirst = sql`item.position desc nulls last, item.id desc nulls last`

const listed = ({ table, isListed }: OrderedLists, { list, id }: P, condition: SQL): SQL =>
  sql`select item.id, item.position from ${table} item where ${isListed(list)} and item.id <> ${id} and ${condition}`

const anchorOf = (lists: OrderedLists, p: P): SQL => listed(lists, p, sql`item.id = ${p.anchor}`)

const gapColumns = {
  present: 'text?',
  anchor_id: 'text?',
  anchor_position: 'text?',
  neighbour_id: 'text?',
  neighbour_position: 'text?',
} as const

/**
 * The rows around the destination of a move: `anchor`, if it is in the list, and `neighbour` on its other side; and `moving`, the row
 * itself, if it is already in the list.
 */
const gapOf = (lists: OrderedLists, p: P): SQL => {
  const nearest = (side: string, condition: SQL, order: SQL): SQL =>
    sql`(${listed(lists, p, sql`${p.side} = ${sql.raw(`'${side}'`)} and ${condition}`)} order by ${order} limit 1)`
  const anchor = place(sql`anchor`)
  const { table, isListed } = lists
  return sql`
    select moving.position as present, anchor.id::text as anchor_id, anchor.position as anchor_position,
      neighbour.id::text as neighbour_id, neighbour.position as neighbour_position
    from (values (true)) always
    left join lateral (select item.position from ${table} item where ${isListed(p.list)} and item.id = ${p.id}) moving on true
    left join lateral (${anchorOf(lists, p)}) anchor on true
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

/** Columns of a window: JSON arrays of rows, the nearest first. */
const windowColumns = { previous: 'text', next: 'text' } as const

/** The rows on both sides of a gap, the anchor included; none without the anchor. */
const windowOf = (lists: OrderedLists, p: P & { readonly size: SQL }): SQL => {
  const side = (anchorSide: string, sign: string, order: SQL): SQL => {
    const condition = sql`(${place(item)} ${sql.raw(sign)} ${place(sql`anchor`)}
      or item.id = anchor.id and ${p.side} = ${sql.raw(`'${anchorSide}'`)})`
    const rows = sql`${listed(lists, p, condition)} order by ${order} limit ${p.size} + 1`
    return sql`(select coalesce(json_agg(item), '[]')::text from (${rows}) item)`
  }
  return sql`
    select ${side('after', '<', previousFirst)} as previous, ${side('before', '>', nextFirst)} as next
    from (${anchorOf(lists, p)}) anchor`
}

/** A new position of a row, to make room in a gap. */
interface NewPosition {
  readonly id: string
  readonly from: string
  readonly to: string
}

/** Reads `size` rows, and one more, on each side of a gap. */
type ReadWindow = (size: number) => Promise<Row<typeof windowColumns> | undefined>

/** The positions that space the rows around a gap evenly. */
const spacing = async (readWindow: ReadWindow): Promise<readonly NewPosition[]> => {
  for (const size of windows) {
    const window = await readWindow(size)
    if (window === undefined) return []
    const sides = [window.previous, window.next].map((json) => JSON.parse(json) as readonly Placed[])
    const [previous = [], next = []] = sides.map((rows) => rows.slice(0, size))
    // The bounds: the rows after the window, or null at the start or end of the list.
    const [after, before] = sides.map((rows) => rows[size]?.position ?? null)
    const rows = [...previous.toReversed(), ...next]
    const positions = positionsIn({ after: after ?? null, before: before ?? null }, rows.length)
    if (positions !== null) {
      const moved = rows.map(({ id, position: from }, index) => ({ id, from, to: positions[index] ?? from }))
      return moved.filter(({ from, to }) => from !== to)
    }
  }
  return []
}

/** There is no room at the destination of a move: the rows around it have to make some. */
export class NoRoom extends Error {
  override readonly name = 'NoRoom'
  readonly move: Move
  constructor(move: Move) {
    super('There is no room between the rows')
    this.move = move
  }
}

/** The positions of the rows of lists. */
interface Positions {
  /**
   * The position of a row at its destination; null if its anchor is not in the list.
   *
   * @throws NoRoom
   */
  readonly find: (db: Runner, move: Move) => Promise<string | null>
  /** Spaces the rows around a destination evenly. */
  readonly makeRoom: (db: Runner, move: Move) => Promise<void>
}

export const positionsOf = (name: 'tasks' | 'sections', lists: OrderedLists): Positions => {
  const selectGap = statement(`${name}.select_gap`, moveParameters, gapColumns, (p) => gapOf(lists, p))
  const selectWindow = statement(
    `${name}.select_window`,
    { ...moveParameters, size: 'int' },
    windowColumns,
    (p) => windowOf(lists, p),
  )
  return {
    async find(db, move) {
      const gap = expectRow(await selectGap(db, move))
      if (move.anchor !== null && gap.anchor_id === null) return null
      const position = positionAt(move.side, gap)
      if (position === null) throw new NoRoom(move)
      return position
    },
    async makeRoom(db, move) {
      await lists.spread(db, await spacing(async (size) => (await selectWindow(db, { ...move, size }))[0]))
    },
  }
}
