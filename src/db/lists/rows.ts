import {
  type AccessBranch,
  branchOfFound,
  distinctUnionOfBranches,
  type FirstRows,
} from '../access/branches.ts'
import { allOf, constant, unionAll } from '../statements/conditions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { Keyset } from './keyset.ts'

/**
 * The rows of a list after a position. In an indexed order, each access branch reads its first rows from its index. In any other
 * order, the rows of all branches are collected once, in `sortable`, and sorted.
 */

/** The first `count` rows after a position, in any order. Few enough rows meet the condition `narrowed` to be sorted. */
export type RowsAfter = (count: SQL, narrowed?: SQL) => SQL

/** The rows `item` of a list: those that the caller can see and that pass the exact filters. */
export interface ListedRows {
  /** The FROM clause. */
  readonly from: SQL
  readonly branches: readonly AccessBranch[]
  /** The conditions of the filters that are cheap enough for every row. */
  readonly exact: readonly SQL[]
  /** The columns to select. */
  readonly columns: SQL
  /** Whether further filters are too expensive for every row, so that many more rows than those of a page are read. */
  readonly isSearched: boolean
  /** The maximum of `count`; null if there is none. */
  readonly maxCount: number | null
}

/** What to read of each branch. */
interface BranchRows {
  readonly columns: SQL
  readonly range?: SQL
  /** A condition that a few rows meet, which are then read by id. */
  readonly narrowed?: SQL | undefined
  /** Orders and limits the rows of a branch. */
  readonly bounded?: (rows: SQL, limit?: SQL) => SQL
  readonly first?: FirstRows | null
}

/** The listed rows of all branches, each row once. Every other query of this file reads them through this one. */
const rowsOfBranches = (
  { from, branches, exact }: ListedRows,
  { columns, range, narrowed, bounded = (rows) => rows, first = null }: BranchRows,
): SQL => {
  const conditions = [...exact, range, narrowed].filter((condition) => condition !== undefined)
  return distinctUnionOfBranches(
    narrowed === undefined ? branches : branchOfFound(branches),
    ({ isRepeated = sql`false` }) =>
      (condition, { from: branchFrom = from, limit } = {}) => {
        const rowLimit = first?.areMany === true ? sql`, ${limit ?? sql`null::int`} as row_limit` : sql``
        const rows = sql`
        select ${columns}, ${isRepeated} as is_repeated ${rowLimit}
        from ${branchFrom}
        where ${allOf([condition, ...conditions])}`
        return bounded(rows, limit)
      },
    first,
  )
}

/** Counts the listed rows, for the total of a list in an indexed order. */
export const countListed = (list: ListedRows): SQL =>
  sql`(select count(*)::int from (${rowsOfBranches(list, { columns: sql`item.id` })}) item)`

/**
 * The first rows of a prepared query. For a LIMIT parameter, a generic plan assumes a tenth of all rows, and so sorts
 * everything when the caller sees many rows. The constant LIMIT bounds this estimate.
 */
const firstRows = (rows: SQL, count: SQL, maxCount: number): SQL =>
  sql`select * from (${rows} limit ${constant(maxCount)}) item limit ${count}`

/** Which rows of an index range to read. */
interface RangeRows {
  readonly range: SQL
  readonly count: SQL
  readonly narrowed?: SQL | undefined
}

/**
 * The first rows of one index range: up to `count` of each branch, read in the order of its index. The first rows of the list in
 * this range are among them.
 */
export const rowsOfRange = (
  list: ListedRows,
  { columns: keys, rangeOrder, order }: Keyset,
  { range, count, narrowed }: RangeRows,
): SQL =>
  rowsOfBranches(list, {
    columns: sql`${list.columns}, ${keys}`,
    range,
    narrowed,
    bounded: (rows, branchLimit) => {
      const ordered = sql`${rows} order by ${rangeOrder}`
      if (branchLimit !== undefined) return sql`${ordered} limit ${branchLimit}`
      return list.maxCount === null
        ? sql`${ordered} limit ${count}`
        : firstRows(ordered, count, list.maxCount)
    },
    first: { order, count, areMany: list.isSearched },
  })

/** The common table expression `sortable`: the ids and sort keys of all listed rows. */
export const collectSortable = (list: ListedRows, { columns: keys }: Keyset): SQL => sql`
          sortable as materialized (${rowsOfBranches(list, { columns: sql`item.id, ${keys}` })})`

/**
 * The first rows after the position in an order without an index. Sorts the ids of `sortable`, or the few listed rows that meet
 * `narrowed`; and then reads the columns of the first ones.
 */
const sortedRows = (
  list: ListedRows,
  { columns: keys, names, order, ranges }: Keyset,
  count: SQL,
  narrowed: SQL | undefined,
): SQL => {
  const rows =
    narrowed === undefined
      ? sql`select * from sortable`
      : rowsOfBranches(list, { columns: sql`item.id, ${keys}`, narrowed })
  return sql`
      select ${list.columns}, ${names}, false as is_repeated from (
        select * from (${rows}) sortable where ${allOf(ranges)} order by ${order} limit ${count}
      ) sorted join ${list.from} on item.id = sorted.id`
}

/** The first rows after the position, by whichever way the order allows. */
export const rowsAfter =
  (list: ListedRows, keyset: Keyset): RowsAfter =>
  (count, narrowed) =>
    keyset.isIndexed
      ? unionAll(keyset.ranges.map((range) => rowsOfRange(list, keyset, { range, count, narrowed })))
      : sortedRows(list, keyset, count, narrowed)
