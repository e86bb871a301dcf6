import { type SQL, sql } from './drizzle.ts'

/**
 * Pages of rows in ranges of fields that they are not sorted by. The planner knows well how many rows a range has, but
 * takes them to be spread evenly over any other order. What was changed last may be due last: then it would walk the whole
 * index with that order.
 */

/** So many rows are read and sorted in some 30 ms. */
const mostToSort = 25_000

/** So many are read in some 3 ms: enough for a page where the ranges leave one row in fifty. */
const mostToTry = 2_500

interface UnevenRows {
  /** FROM. */
  readonly from: SQL
  /** What holds beside the ranges. */
  readonly rows: SQL
  /** What an index on a field of the ranges has beside it. */
  readonly reason: SQL
  /** For each field its range. */
  readonly ranges: readonly SQL[]
  /** ORDER BY. */
  readonly inOrder: SQL
  /** How many rows. */
  readonly most: SQL
}

/**
 * The first rows `item` that are in the ranges. They are looked for in the order at first, and where that leads too far and
 * a range is narrow, all are read and sorted: OFFSET keeps the planner from doing so in the order. Else it has its way.
 */
export const firstInRanges = ({ from, rows, reason, ranges, inOrder, most }: UnevenRows): SQL => {
  const inRanges = sql.join([...ranges], sql` and `)
  const isNarrow = ranges.map(
    (range) => sql`(
      select count(*) from (select ${from} where ${reason} and ${range} limit ${number(mostToSort + 1)}) item
    ) <= ${number(mostToSort)}`,
  )
  return sql`
    with tried as materialized (
      select * from (select item.* ${from} where ${rows} ${inOrder} limit ${number(mostToTry)}) item
      where ${inRanges} ${inOrder} limit ${most}
    ), missed as materialized (
      select ${sql.join(isNarrow, sql` or `)} as is_narrow where (select count(*) from tried) < ${most}
    )
    select * from tried where not exists (select from missed)
    union all (
      select * from (select item.* ${from} where ${rows} and ${inRanges} offset 0) item
      where (select is_narrow from missed) ${inOrder} limit ${most})
    union all (
      select item.* ${from} where ${rows} and ${inRanges} and not (select is_narrow from missed) ${inOrder} limit ${most})`
}

const number = (value: number): SQL => sql.raw(String(value))
