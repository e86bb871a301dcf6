import type { Position } from '../../domain/cursors.ts'
import { done, missing, type Outcome } from '../../domain/outcome.ts'
import type { Principal, Role } from '../../domain/permissions.ts'
import { type SortBy, TooManyToSort } from '../../domain/sort.ts'
import {
  type AccessBranch,
  branchOfFound,
  distinctUnionOfBranches,
  type FirstRows,
} from '../access/branches.ts'
import type { CallerPlaceholders } from '../access/permissions.ts'
import type { Database } from '../engine/client.ts'
import { allOf, type Condition, constant, listOf, unionAll } from '../engine/conditions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { renderedRows } from '../engine/rendered-rows.ts'
import { parameter } from '../engine/parameters.ts'
import { type Compiled, compile, runCompiled } from '../engine/statement.ts'
import { indexOrder, type Keyset, keysetOf, parseEdge, positionValues, type SortField } from './keyset.ts'
import { type PickedRows, type RowsAfter, searchedRows } from './searched.ts'

/**
 * Lists. A resource declares its access branches, filters and sort fields; this module builds one statement per page.
 *
 * In an indexed order, the statement reads about one page of rows from each branch, regardless of the size of the list and
 * the depth of the page. In any other order, it sorts all rows that pass the filters, up to `maxSorted`.
 */

/** Default number of items per page. */
export const defaultLimit = 50

/** Maximum number of items per page, as in the contract. */
export const maxLimit = 200

/** Maximum number of rows that a request may sort: about 150 ms on a server. */
export const maxSorted = 50_000

/** The pagination parameters, common to all lists. */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
  /** The decoded cursor; null for the first page. */
  readonly position: Position | null
  readonly includeTotal: boolean
}

/** A page. `items` is a JSON array as text; `next` and `previous` are null where there is no such page. */
export interface Page {
  readonly items: string
  readonly next: Position | null
  readonly previous: Position | null
  readonly total: number | null
}

/** The default order of most lists. */
export const newestFirst: readonly SortBy<'created_at'>[] = [{ field: 'created_at', descending: true }]
export const createdAt: SortField = {
  value: sql`item.created_at`,
  type: 'instant',
  isNullable: false,
  isIndexed: true,
}

/** The order of lists of the trash. */
export const lastDeletedFirst: readonly SortBy<'deleted_at'>[] = [{ field: 'deleted_at', descending: true }]
export const deletedAt: SortField = {
  value: sql`item.deleted_at`,
  type: 'instant',
  isNullable: false,
  isIndexed: true,
}

/** A list. Its rows are named `item` and have an `id`. */
export interface ListSource<Field extends string> {
  readonly name: string
  /** The FROM clause. */
  readonly from: SQL
  /** Access branches: the rows that the caller can see. */
  readonly branches: (caller: CallerPlaceholders) => readonly AccessBranch[]
  /** Conditions from the request; all must hold. */
  readonly filters: readonly Condition[]
  readonly sortFields: Readonly<Record<Field, SortField>>
  /** Sort order. The id breaks ties, in the direction of the last field. */
  readonly order: readonly SortBy<Field>[]
  /** A condition for rows that come first, unless too many rows pass the filters. Requires the order `newestFirst`. */
  readonly rank?: SQL
  /**
   * The columns of the rows while they are selected and sorted; all by default, and for searched rows. For wide rows, a few columns
   * make planning and sorting cheaper; `json` then reads the rows of the page again by id.
   */
  readonly columns?: SQL
  /** A row as JSON text. */
  readonly json: (row: SQL, caller: CallerPlaceholders) => SQL
  /** Values of parameters outside the conditions. */
  readonly values?: Readonly<Record<string, unknown>>
}

const pageColumns = {
  items: 'text',
  near: 'text?',
  far: 'text?',
  total: 'int?',
  is_too_long: 'bool',
} as const

/** Compiled statements that connections prepare: a bounded set that clients cannot grow. */
const prepared = new Map<string, Compiled>()

/**
 * One page of a list as the principal sees it, in one statement: the items, the neighboring pages, and the total if
 * requested.
 *
 * @throws TooManyToSort
 */
export const selectPage = async <Field extends string>(
  db: Database,
  source: ListSource<Field>,
  principal: Principal,
  request: PageRequest,
): Promise<Page> => {
  const { position, limit, offset } = request
  const values = {
    ...source.values,
    ...Object.fromEntries(source.filters.flatMap((condition) => Object.entries(condition.values))),
    ...positionValues(position),
    at_rank: Number(rankAt(source.order, position)),
    caller: principal.userId,
    limit,
    offset,
  }
  const rows = isPrepared(source, request)
    ? await runCompiled(db, prepare(source, principal.role, request), pageColumns, values)
    : await runCompiled(db, pageStatement(source, principal.role, request), pageColumns, values, 'once')
  const [row] = rows
  if (row === undefined) throw new Error('A list statement returned no row')
  if (row.is_too_long) throw new TooManyToSort(maxSorted)
  const { items, total } = row
  const [near, far] = [parseEdge(row.near), parseEdge(row.far)]
  const isReversed = position?.direction === 'before'
  const isFirst = position === null && offset === 0
  const [first, last] = isReversed ? [far, near] : [isFirst ? null : near, far]
  return {
    items,
    total,
    previous: first && { direction: 'before', ...first },
    next: last && { direction: 'after', ...last },
  }
}

/**
 * A page of the items of a resource, or `missing` if the caller cannot see the resource. A page with items proves that they can;
 * only an empty page needs `isVisible`.
 */
export const pageIfVisible = async (page: Page, isVisible: () => Promise<boolean>): Promise<Outcome<Page>> =>
  page.items !== '[]' || (await isVisible()) ? done(page) : missing

/**
 * Only lists without filters are prepared, since a connection keeps its prepared statements until it closes. A filtered list
 * has to be planned for each request anyway: the best index depends on the values.
 */
const isPrepared = <Field extends string>(
  { filters, order }: ListSource<Field>,
  request: PageRequest,
): boolean => filters.length === 0 && order.length === 1 && request.offset === 0 && !request.includeTotal

const prepare = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  request: PageRequest,
): Compiled => {
  const { position } = request
  const key = JSON.stringify([
    source.name,
    role,
    source.order,
    position && [position.direction, position.values.map((value) => value === null)],
  ])
  const known = prepared.get(key)
  if (known !== undefined) return known
  const compiled = pageStatement(source, role, request)
  prepared.set(key, compiled)
  return compiled
}

/** The columns of the rows while they are selected; null for all. */
const pickedColumns = <Field extends string>({ filters, columns }: ListSource<Field>): SQL | null =>
  columns !== undefined && filters.every(({ search }) => search === undefined) ? columns : null

const limit = parameter('limit', 'int')
const offset = parameter('offset', 'int')

const pageStatement = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  request: PageRequest,
): Compiled => {
  // `is_admin` is a constant, so that the planner can choose the indexes of the branches.
  const caller = {
    caller: parameter('caller', 'uuid'),
    is_admin: sql.raw(String(role === 'admin')),
    in_session: sql`false`,
  }
  const { isForward, order, edge, steps, hasFrontier, total, isTooLong } = pickRows(source, request, caller)
  const edgeAt = (ordinal: SQL): SQL => sql`(select ${edge} from numbered where ordinal = ${ordinal})`
  const frontier = hasFrontier ? sql`(select ${edge} from frontier)` : sql`null`
  const json =
    pickedColumns(source) === null
      ? source.json(sql`numbered`, caller)
      : sql`(select ${source.json(sql`item`, caller)} from ${source.from} where item.id = numbered.id)`
  return compile(
    `${source.name}.list`,
    sql`
    with recursive ${steps}, numbered as materialized (
      select picked.*, row_number() over (order by ${order}) as ordinal from picked
    ), ${renderedRows(json, limit)}, page as (
      select '[' || coalesce(string_agg(json, ',' order by ordinal ${isForward ? sql`` : sql`desc`}), '') || ']' as items,
        max(ordinal) as shown
      from rendered
    )
    select items, coalesce(${edgeAt(sql`1`)}, ${frontier}) as near,
      case when shown < (select count(*) from numbered) then ${edgeAt(sql`shown`)} else ${frontier} end as far,
      ${total} as total, ${isTooLong} as is_too_long
    from page`,
  )
}

/**
 * The first rows of a prepared query. For a LIMIT parameter, a generic plan assumes a tenth of all rows, and so sorts
 * everything when the caller sees many rows. The constant LIMIT bounds this estimate.
 */
const firstRows = (rows: SQL, count: SQL): SQL =>
  sql`select * from (${rows} limit ${constant(maxLimit + 1)}) item limit ${count}`

/** Rows that are read from each branch. */
interface BranchRows {
  readonly columns: SQL
  readonly where?: readonly SQL[]
  /** A condition that a few rows meet, which are then read by id. */
  readonly narrowed?: SQL | undefined
  /** Orders and limits the rows of a branch. */
  readonly bounded?: (rows: SQL, limit?: SQL) => SQL
  readonly first?: FirstRows | null
}

/** SQL that selects the rows of a page. */
const pickRows = <Field extends string>(
  source: ListSource<Field>,
  request: PageRequest,
  caller: CallerPlaceholders,
): PickedRows & { readonly isForward: boolean; readonly order: SQL; readonly edge: SQL } => {
  const { order, sortFields, from, rank } = source
  const { position, includeTotal } = request
  const searched = source.filters.filter(({ search }) => search !== undefined)
  const exact = source.filters.filter(({ search }) => search === undefined).map((filter) => filter.sql)
  const branches = source.branches(caller)
  const isRanked = rank !== undefined && rankAt(source.order, position) !== null
  const keyset = keysetOf(order, sortFields, position, position === null || isRanked)

  const rowsOfBranches = ({
    columns,
    where = [],
    narrowed,
    bounded = (rows) => rows,
    first = null,
  }: BranchRows): SQL =>
    distinctUnionOfBranches(
      narrowed === undefined ? branches : branchOfFound(branches),
      ({ isRepeated }) =>
        (condition, { from: branchFrom = from, limit: branchLimit } = {}) =>
          bounded(
            sql`
        select ${columns}, ${isRepeated ?? sql`false`} as is_repeated ${first?.areMany === true ? sql`, ${branchLimit ?? sql`null::int`} as row_limit` : sql``}
        from ${branchFrom}
        where ${allOf([condition, ...exact, ...where, ...(narrowed === undefined ? [] : [narrowed])])}`,
            branchLimit,
          ),
      first,
    )
  const isTooLong = keyset.isIndexed ? null : sql`(select rows > ${constant(maxSorted)} from sortable_count)`
  const picked = pickedColumns(source) ?? sql`item.*`
  const indexed = (
    { columns: keys, rangeOrder, order: inOrder }: Keyset,
    {
      count,
      range,
      narrowed,
    }: { readonly count: SQL; readonly range: SQL; readonly narrowed?: SQL | undefined },
  ): SQL =>
    rowsOfBranches({
      columns: sql`${picked}, ${keys}`,
      where: [range],
      narrowed,
      bounded: (rows, branchLimit) => {
        const ordered = sql`${rows} order by ${rangeOrder}`
        if (branchLimit !== undefined) return sql`${ordered} limit ${branchLimit}`
        return isPrepared(source, request) ? firstRows(ordered, count) : sql`${ordered} limit ${count}`
      },
      first: { order: inOrder, count, areMany: searched.length > 0 },
    })
  const sorted = (
    { columns: keys, names, order: inOrder, ranges }: Keyset,
    count: SQL,
    narrowed?: SQL,
  ): SQL => {
    const rows =
      narrowed === undefined
        ? sql`select * from sortable where not ${isTooLong}`
        : rowsOfBranches({ columns: sql`item.id, ${keys}`, narrowed })
    return sql`
      select ${picked}, ${names}, false as is_repeated from (
        select * from (${rows}) sortable where ${allOf(ranges)} order by ${inOrder} limit ${count}
      ) sorted join ${from} on item.id = sorted.id`
  }
  const rowsOf =
    (of: Keyset): RowsAfter =>
    (count, narrowed) =>
      of.isIndexed
        ? unionAll(of.ranges.map((range) => indexed(of, { count, range, narrowed })))
        : sorted(of, count, narrowed)
  const exactRows = (): PickedRows => {
    const needed = sql`${limit} + 1 + ${offset}`
    const [nearest, farther] = keyset.ranges
    const isSplit = keyset.isIndexed && farther !== undefined && request.offset === 0
    const parts = isSplit
      ? sql`select * from nearest union all
          select * from (${indexed(keyset, { count: needed, range: farther })}) farther where (select count(*) from nearest) < ${needed}`
      : rowsOf(keyset)(needed)
    const counted = sql`(select count(*)::int from (${rowsOfBranches({ columns: sql`item.id` })}) item)`
    const total = isTooLong === null ? counted : sql`(select rows from sortable_count)`
    return {
      steps: sql`
        ${isSplit ? sql`nearest as materialized (${indexed(keyset, { count: needed, range: nearest ?? sql`true` })}),` : sql``}
        picked as (
          select * from (${parts}) parts order by ${keyset.order} limit ${limit} + 1 offset ${offset}
        )`,
      hasFrontier: false,
      total: includeTotal ? total : sql`null::int`,
      isTooLong: isTooLong ?? sql`false`,
    }
  }
  const fromStart = keysetOf(order, sortFields, null)
  const { isForward } = keyset
  const rankedOrder = listOf([indexOrder(sql`rank`, !isForward), keyset.order])
  const { steps, ...rows } =
    searched.length === 0
      ? exactRows()
      : searchedRows({
          from,
          walk: { rowsOf: rowsOf(keyset), order: keyset.order },
          start:
            includeTotal && position !== null && !isRanked
              ? { rowsOf: rowsOf(fromStart), order: fromStart.order }
              : null,
          searched,
          ranked: isRanked
            ? { rank, order: rankedOrder, isAfter: position === null ? sql`true` : isAfterRanked(isForward) }
            : null,
          isTooLong,
          limit,
          offset,
          includeTotal,
        })
  const edge = rank === undefined ? keyset.edge : [...keyset.edge, sql`rank::text`]
  return {
    isForward,
    order: isRanked ? rankedOrder : keyset.order,
    edge: sql`json_build_array(${listOf(edge)})::text`,
    ...rows,
    steps:
      isTooLong === null
        ? steps
        : sql`
          sortable as materialized (
            ${rowsOfBranches({
              columns: sql`item.id, ${keyset.columns}`,
              bounded: (rows) => sql`${rows} limit ${constant(maxSorted + 1)}`,
            })}
          ), sortable_count as materialized (select count(*)::int as rows from sortable), ${steps}`,
  }
}

/** The cursor of a ranked list ends with the rank; it is null if there were too many rows to rank. */
const rankAt = (order: readonly unknown[], position: Position | null): string | null | undefined =>
  position?.values[order.length]

const isAfterRanked = (isForward: boolean): SQL => sql`
  (rank, sort_0, id) ${sql.raw(isForward ? '<' : '>')}
    (${parameter('at_rank', 'int')}, ${parameter('at_0', 'instant')}, ${parameter('at_id', 'uuid')})`
