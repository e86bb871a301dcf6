import { type SQL, sql } from '../schema/drizzle.ts'
import type { Keyset } from './keyset.ts'

/**
 * Pages of rows that pass conditions which no index has in the order of the list, such as a text inside another one. A
 * request examines a bounded number of rows and a bounded amount of text: the first rows in the order of the list, or, if
 * they do not fill the page, all that an index finds, if these are few. Where that bound ends the page, the next page begins
 * behind the last row examined.
 */

/** What a condition costs that is asked of each row examined. */
export interface TextSearch {
  /** The octets that it compares at worst, as a float8 expression on the row `item` that reads no text. */
  readonly cost: SQL
  /** Holds for every row that passes the condition; an index finds these rows. */
  readonly index?: SQL
}

/** Rows that a request examines at most. */
const maxExamined = 2_500

/** Rows that an index may find, so that all of them are examined instead. */
const maxFound = 1_000

/** The cost of all rows that a request examines: some 50 ms on a server. */
const maxCost = 40_000_000

interface SearchedRows {
  /** FROM. */
  readonly from: SQL
  readonly keyset: Keyset
  /** The first rows of a table expression named `item`, so many for each index that is read, in any order. */
  readonly rowsFrom: (from: SQL, count: SQL) => SQL
  /** The same from the start of the list, where the total is not that of the rows behind the position. */
  readonly start: { readonly rowsFrom: SearchedRows['rowsFrom']; readonly order: SQL } | null
  /** What is asked of the rows examined. */
  readonly conditions: SQL
  readonly searches: readonly TextSearch[]
  /** Rows for which it holds come first, if all rows could be examined. `rowsFrom` then begins at the start of the list. */
  readonly rank?: SQL
  /** With a rank: whether a row is behind the position; null at the start. */
  readonly isBehind: SQL | null
  readonly limit: SQL
  readonly offset: SQL
  readonly includeTotal: boolean
}

export const searchedRows = ({
  from,
  keyset,
  rowsFrom,
  start,
  conditions,
  searches,
  rank,
  isBehind,
  limit,
  offset,
  includeTotal,
}: SearchedRows): { readonly steps: SQL; readonly frontier: SQL; readonly total: SQL } => {
  const cost = sum(searches.map((one) => one.cost))
  const indexes = searches.flatMap(({ index }) => index ?? [])
  const candidates = (source: SQL, rows: SearchedRows['rowsFrom'], order: SQL): SQL => sql`
    select item.*, row_number() over candidate as place, sum(${cost}) over candidate as cost
    from (${rows(source, number(maxExamined + 1))}) item
    window candidate as (order by ${order} rows unbounded preceding) order by ${order} limit ${number(maxExamined + 1)}`
  // OFFSET keeps the conditions from being asked of other rows, or of more rows than the page needs.
  const passing = (rows: SQL): SQL => sql`
    select item.* from (select * from ${rows} where ${isExamined} order by place offset 0) item where ${conditions}`

  const total = start === null ? sql`page_rows` : sql`start_rows`
  const isFull = sql`(
    select count(*) from (${passing(sql`page_walk`)} limit ${limit} + 1 + ${offset}) item) > ${limit} + ${offset}`
  const isMissed =
    rank === undefined && !includeTotal
      ? sql`${hasMore(sql`page_walk`)} and not ${isFull}`
      : hasMore(start === null ? sql`page_walk` : sql`start_walk`)
  const indexed = sql`(
    select item.* from ${from} where item.id in (select id from found) and (select is_indexed from choice) offset 0) item`
  const chosen = (walk: SQL, rows: SearchedRows['rowsFrom'], order: SQL): SQL =>
    indexes.length === 0
      ? sql`select * from ${walk}`
      : sql`
        select * from ${walk} where not (select is_indexed from choice)
        union all select * from (${candidates(indexed, rows, order)}) indexed`
  const choice = sql`
    missed as materialized (
      select ${isMissed} as holds
    ), found as materialized (
      select item.id from ${from} where ${and(indexes)} and (select holds from missed) limit ${number(maxFound + 1)}
    ), choice as materialized (
      select holds and (select count(*) from found) <= ${number(maxFound)} as is_indexed from missed
    ),`

  const picked = passing(sql`page_rows`)
  const isRanked = sql`(select not ${hasMore(sql`page_rows`)})`
  const ranked = sql`select item.*, case when ${isRanked} then (${rank})::int end as rank from (${picked}) item`
  return {
    steps: sql`
      page_walk as materialized (
        ${candidates(from, rowsFrom, keyset.order)}
      ), ${start === null ? sql`` : sql`start_walk as materialized (${candidates(from, start.rowsFrom, start.order)}),`}
      ${indexes.length === 0 ? sql`` : choice}
      page_rows as materialized (
        ${chosen(sql`page_walk`, rowsFrom, keyset.order)}
      ), ${start === null ? sql`` : sql`start_rows as materialized (${chosen(sql`start_walk`, start.rowsFrom, start.order)}),`}
      picked as (
        ${
          rank === undefined
            ? sql`${picked} order by place`
            : sql`select * from (${ranked}) item ${isBehind === null ? sql`` : sql`where not ${isRanked} or ${isBehind}`}
              order by ${keyset.rankedOrder}`
        } limit ${limit} + 1 offset ${offset}
      )`,
    frontier: sql`(
      select ${keyset.edge} from (select page_rows.*, null::int as rank from page_rows) item
      where ${isExamined} and ${hasMore(sql`page_rows`)} order by place desc limit 1)`,
    total: includeTotal
      ? sql`case when not ${hasMore(total)} then (select count(*)::int from (${passing(total)}) item) end`
      : sql`null::int`,
  }
}

const number = (value: number): SQL => sql.raw(String(value))
const sum = (values: readonly SQL[]): SQL => sql.join([...values], sql` + `)
const and = (conditions: readonly SQL[]): SQL => sql.join([...conditions], sql` and `)

const isExamined = sql`place <= ${number(maxExamined)} and (cost <= ${number(maxCost)} or place = 1)`
const hasMore = (rows: SQL): SQL => sql`exists (select from ${rows} where not (${isExamined}))`
