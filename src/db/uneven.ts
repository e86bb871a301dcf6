import { type SQL, sql } from './drizzle.ts'

/**
 * Pages of rows that pass conditions which the planner misjudges. Of ranges of fields it knows well how many rows they have,
 * but takes them to be spread evenly over any other order: what was changed last may be due last, and then it would walk the
 * whole index with that order. Of what is searched for in a text it knows little, and reads and sorts all that has a
 * frequent part.
 */

/** So many rows are read and sorted in some 30 ms. */
const mostToSort = 25_000

/** So many are read in some 3 ms: enough for a page where the ranges leave one row in fifty. */
const mostToTry = 2_500

/** Fewer for what is searched for: most of that is rare, and its index finds it faster. */
const mostToSearch = 1_000

interface UnevenRows {
  /** FROM. */
  readonly from: SQL
  /** What holds beside the conditions. */
  readonly rows: SQL
  readonly conditions: SQL
  /** Those of them that are ranges: for each field its range. */
  readonly ranges: readonly SQL[]
  /** What an index on a field of the ranges has beside it. */
  readonly reason: SQL
  /** ORDER BY. */
  readonly inOrder: SQL
  /** How many rows. */
  readonly most: SQL
}

/**
 * The first rows `item` that pass the conditions. They are looked for in the order at first, and where that leads too far
 * and a range is narrow, all are read and sorted: OFFSET keeps the planner from doing so in the order. Else it has its way.
 */
export const firstOfUneven = (uneven: UnevenRows): SQL => {
  const { from, rows, conditions, ranges, inOrder, most } = uneven
  const toTry = ranges.length === 0 ? mostToSearch : mostToTry
  const inNarrow = sql`
    union all (
      select * from (select item.* ${from} where ${rows} and ${conditions} offset 0) item
      where (select is_narrow from missed) ${inOrder} limit ${most})`
  return sql`
    with tried as materialized (
      select * from (select item.* ${from} where ${rows} ${inOrder} limit ${number(toTry)}) item
      where ${conditions} ${inOrder} limit ${most}
    ), missed as materialized (
      select ${isNarrow(uneven)} as is_narrow where (select count(*) from tried) < ${most}
    )
    select * from tried where not exists (select from missed)
    ${ranges.length === 0 ? sql`` : inNarrow}
    union all (
      select item.* ${from} where ${rows} and ${conditions} and not (select is_narrow from missed) ${inOrder} limit ${most})`
}

/** Whether the rows in one of the ranges are few enough to read and sort them all. */
const isNarrow = ({ from, reason, ranges }: UnevenRows): SQL =>
  sql.join(
    [
      sql`false`,
      ...ranges.map(
        (range) => sql`(
          select count(*) from (select ${from} where ${reason} and ${range} limit ${number(mostToSort + 1)}) item
        ) <= ${number(mostToSort)}`,
      ),
    ],
    sql` or `,
  )

const number = (value: number): SQL => sql.raw(String(value))
