import { allOf, constant } from '../statements/conditions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { Condition } from '../statements/conditions.ts'
import type { RowsAfter } from './rows.ts'

/**
 * Pages of rows that meet expensive conditions, such as a substring search. A request examines a bounded number of rows and
 * a bounded amount of text: the first rows in list order, or, if these do not fill the page and an index finds few rows, all
 * rows from the index. If the bound cuts a page short, the next page starts after the last row examined.
 */

/** Maximum number of rows that a request examines. */
const maxExamined = 2_500

/** If an index finds at most this many rows, all of them are examined instead of the first rows in list order. */
const maxFound = 1_000

/** Maximum total cost (`TextSearch.cost`) of the rows that a request examines: about 50 ms on a server. */
const maxCost = 40_000_000

/** The rows of a list after a position, and their order. */
export interface Walk {
  readonly rowsOf: RowsAfter
  readonly order: SQL
}

/** The rank of a row, the order of rows by it, and whether a row comes after the position in this order. */
export interface Ranking {
  readonly rank: SQL
  readonly order: SQL
  readonly isAfter: SQL
}

interface SearchedRows {
  /** The FROM clause. */
  readonly from: SQL
  readonly walk: Walk
  /** The walk from the start of the list, if the total has to be counted from there; otherwise null. */
  readonly start: Walk | null
  readonly searched: readonly Condition[]
  /** Ranked rows come first if all rows can be examined. The walk then begins at the start of the list. */
  readonly ranked: Ranking | null
  readonly limit: SQL
  readonly offset: SQL
  readonly includeTotal: boolean
}

/** The common table expressions that select a page's rows, with the total. */
export interface PickedRows {
  /** Common table expressions. `picked` has the rows of the page, and one more row if there is a next page. */
  readonly steps: SQL
  /** Whether there is a `frontier`: the last examined row, if rows after it were not examined. */
  readonly hasFrontier: boolean
  readonly total: SQL
}

export const searchedRows = (search: SearchedRows): PickedRows => {
  const { from, walk, start, searched, ranked, limit, offset, includeTotal } = search
  const searches = searched.flatMap((condition) => condition.search ?? [])
  const cost = sql.join(
    searches.map((one) => one.cost),
    sql` + `,
  )
  const candidates = (rows: SQL, order: SQL): SQL => sql`
    select item.*, row_number() over candidate as place, sum(${cost}) over candidate as cost
    from (${rows}) item window candidate as (order by ${order} rows unbounded preceding)
    order by ${order} limit ${constant(maxExamined + 1)}`
  // OFFSET keeps the planner from evaluating the conditions on other rows, or on more rows than the page needs.
  const passing = (rows: SQL): SQL => sql`
    select item.* from (select * from ${rows} where ${isExamined} order by place offset 0) item
    where ${allOf(searched.map((condition) => condition.sql))}`
  const isFull = sql`(
    select count(*) from (${passing(sql`page_walk`)} limit ${limit} + 1 + ${offset}) item) > ${limit} + ${offset}`
  const counts = start === null ? sql`page` : sql`start`
  const isMissed =
    ranked === null && !includeTotal
      ? sql`${hasMore(sql`page_walk`)} and not ${isFull}`
      : hasMore(sql`${counts}_walk`)

  const indexes = searches.flatMap(({ index }) => index ?? [])
  const choice = sql`
    missed as materialized (
      select ${isMissed} as holds
    ), found as materialized (
      select item.id from ${from} where ${allOf(indexes)} and (select holds from missed) limit ${constant(maxFound + 1)}
    ), choice as materialized (
      select holds and (select count(*) from found) <= ${constant(maxFound)} as is_indexed from missed
    ),`
  // An array, which the planner assumes to be short: it looks up the rows by id.
  const isFound = sql`item.id = any(array(select id from found where (select is_indexed from choice)))`
  const walked = (name: SQL, { rowsOf, order }: Walk): SQL => sql`
    ${name}_walk as materialized (${candidates(rowsOf(constant(maxExamined + 1)), order)}),`
  const chosen = (name: SQL, { rowsOf, order }: Walk): SQL =>
    indexes.length === 0
      ? sql`${name}_rows as materialized (select * from ${name}_walk),`
      : sql`${name}_rows as materialized (
          select * from ${name}_walk where not (select is_indexed from choice)
          union all select * from (${candidates(rowsOf(constant(maxFound), isFound), order)}) indexed
        ),`

  const picked = passing(sql`page_rows`)
  const isRanked = sql`(select not ${hasMore(sql`page_rows`)})`
  const inOrder =
    ranked === null
      ? sql`select *, null::int as rank from (${picked}) item order by place`
      : sql`
        select * from (
          select item.*, case when ${isRanked} then (${ranked.rank})::int end as rank from (${picked}) item
        ) item where not ${isRanked} or ${ranked.isAfter} order by ${ranked.order}`
  return {
    steps: sql`
      ${walked(sql`page`, walk)} ${start === null ? sql`` : walked(sql`start`, start)}
      ${indexes.length === 0 ? sql`` : choice}
      ${chosen(sql`page`, walk)} ${start === null ? sql`` : chosen(sql`start`, start)}
      picked as (
        ${inOrder} limit ${limit} + 1 offset ${offset}
      ), frontier as (
        select page_rows.*, null::int as rank from page_rows
        where ${isExamined} and ${hasMore(sql`page_rows`)} order by place desc limit 1
      )`,
    hasFrontier: true,
    total: includeTotal
      ? sql`case when not ${hasMore(sql`${counts}_rows`)} then (
          select count(*)::int from (${passing(sql`${counts}_rows`)}) item) end`
      : sql`null::int`,
  }
}

const isExamined = sql`place <= ${constant(maxExamined)} and (cost <= ${constant(maxCost)} or place = 1)`
const hasMore = (rows: SQL): SQL => sql`exists (select from ${rows} where not (${isExamined}))`
