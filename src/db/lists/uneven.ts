import { type SQL, sql } from '../schema/drizzle.ts'

/**
 * Pages of rows in ranges of other fields than the one that the list is sorted by. The planner estimates a range well but
 * assumes it is independent of the sort column; when they correlate, it scans most of the index.
 */

/** So many rows are read and sorted in some 30 ms. */
const mostToSort = 25_000

/** So many are read in some 3 ms: enough for a page where the ranges leave one row in fifty. */
const mostToTry = 2_500

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
  const { from, rows, conditions, inOrder, most } = uneven
  const inNarrow = sql`
    union all (
      select * from (select item.* ${from} where ${rows} and ${conditions} offset 0) item
      where (select is_narrow from missed) ${inOrder} limit ${most})`
  return sql`
    with tried as materialized (
      select * from (select item.* ${from} where ${rows} ${inOrder} limit ${number(mostToTry)}) item
      where ${conditions} ${inOrder} limit ${most}
    ), missed as materialized (
      select ${isNarrow(uneven)} as is_narrow where (select count(*) from tried) < ${most}
    )
    select * from tried where not exists (select from missed)
    ${inNarrow}
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
