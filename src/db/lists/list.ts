import type { Position } from '../../domain/shared/cursors.ts'
import { maxLimit, type Page, type PageRequest } from '../../domain/shared/pages.ts'
import type { Principal, Role } from '../../domain/shared/permissions.ts'
import type { SortBy } from '../../domain/shared/sort.ts'
import type { AccessBranch } from '../access/branches.ts'
import type { CallerPlaceholders } from '../access/permissions.ts'
import type { Runner, RunMode } from '../engine/transaction.ts'
import { type Condition, listOf } from '../statements/conditions.ts'
import type { StatementContext } from '../statements/context.ts'
import { orTooExpensive } from '../engine/errors.ts'
import { aliasedTable, type PgTable, type SQL, sql } from '../schema/drizzle.ts'
import { expectRow } from '../statements/row-statements.ts'
import { renderedRows } from '../statements/rendered-rows.ts'
import { parameter } from '../statements/parameters.ts'
import { type Compiled, compile, query, runCompiled, type StatementName } from '../statements/statement.ts'
import { indexOrder, type Keyset, keysetOf, parseEdge, positionValues, type SortField } from './keyset.ts'
import { collectSortable, countListed, type ListedRows, rowsAfter, rowsOfRange } from './rows.ts'
import { type PickedRows, type Ranking, searchedRows, type Walk } from './searched.ts'
import { compiledOnce } from './shapes.ts'

/**
 * Lists. A resource declares its access branches, filters and sort fields; this module builds one statement per page.
 *
 * In an indexed order, the statement reads about one page of rows from each branch, regardless of the size of the list and
 * the depth of the page. In any other order, it sorts all rows that pass the filters.
 */

/** The default order of most lists. */
export const newestFirst: readonly SortBy<'created_at'>[] = [{ field: 'created_at', descending: true }]
export const createdAt: SortField = {
  value: sql`item.created_at`,
  type: 'instant',
  isNullable: false,
  isIndexed: true,
}

/** Sorts a list by its default order, without another to choose. */
export const newest = { sortFields: { created_at: createdAt }, order: newestFirst } as const

/** The order of lists of the trash. */
export const lastDeletedFirst: readonly SortBy<'deleted_at'>[] = [{ field: 'deleted_at', descending: true }]
export const deletedAt: SortField = {
  value: sql`item.deleted_at`,
  type: 'instant',
  isNullable: false,
  isIndexed: true,
}

/** A list. Its rows are named `item` and have an `id`. */
export interface ListSource<Field extends string, Table extends PgTable> {
  /** Lists with the same name and the same filters have the same SQL for callers with the same role. */
  readonly name: string
  /** The table whose columns the rows have. */
  readonly table: Table
  /** The FROM clause. By default, the table. */
  readonly from?: SQL
  /** Access branches: the rows that the caller can see. */
  readonly branches: (caller: CallerPlaceholders) => readonly AccessBranch[]
  /** Conditions from the request; all must hold. */
  readonly filters?: readonly Condition[]
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
  readonly json: (row: Table, caller: CallerPlaceholders) => SQL
  /** Values of parameters outside the conditions. */
  readonly values?: Readonly<Record<string, unknown>>
}

const pageColumns = {
  items: 'text',
  near: 'text?',
  far: 'text?',
  total: 'int?',
} as const

/**
 * One page of a list as the principal sees it, in one statement: the items, the neighboring pages, and the total if
 * requested.
 *
 * @throws ListTooExpensive
 */
export const selectPage = async <Field extends string, Table extends PgTable>(
  db: Runner,
  source: ListSource<Field, Table>,
  principal: Principal,
  request: PageRequest,
): Promise<Page> => {
  const { filters = [] } = source
  const { position, limit, offset } = request
  const values = {
    ...source.values,
    ...Object.fromEntries(filters.flatMap((condition) => Object.entries(condition.values))),
    ...positionValues(position),
    at_rank: Number(rankAt(source.order, position)),
    caller: principal.userId,
    limit,
    offset,
  }
  const statement = compiledOnce(source, principal.role, request, () =>
    pageStatement(source, principal.role, request),
  )
  const row = expectRow(
    await orTooExpensive(runCompiled(db, statement, pageColumns, values, modeOf(source, request))),
  )
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
 * A page of the items of a resource, or null if the caller cannot see the resource. A page with items proves that they can;
 * only an empty page needs `isVisible`.
 */
export const selectPageOf = async <Field extends string, Table extends PgTable>(
  ctx: StatementContext<Principal>,
  source: ListSource<Field, Table>,
  request: PageRequest,
  isVisible: () => Promise<boolean>,
): Promise<Page | null> => {
  const page = await selectPage(ctx.db, source, ctx.principal, request)
  return page.items !== '[]' || (await isVisible()) ? page : null
}

/** A query of whether the caller sees the resource with an id. `sees` is its predicate. */
export const visibilityCheck = (
  name: StatementName,
  sees: (caller: CallerPlaceholders, id: SQL) => SQL,
): ((ctx: StatementContext, id: string) => Promise<boolean>) => {
  const check = query(
    name,
    { id: 'uuid' },
    { is_visible: 'bool' },
    (p) => sql`select ${sees(p, p.id)} as is_visible`,
  )
  return async (ctx, id) => (await check(ctx, { id }))[0]?.is_visible === true
}

/** Only lists without filters are few enough to be prepared at once. Other pages are planned for their values unless one plan suits all. */
const modeOf = <Field extends string, Table extends PgTable>(
  { filters = [], order }: ListSource<Field, Table>,
  { offset: skipped, includeTotal }: PageRequest,
): RunMode => {
  if (filters.length === 0 && order.length === 1 && skipped === 0 && !includeTotal) return 'prepared'
  return filters.every(({ plansAlike }) => plansAlike === true) ? 'often' : 'once'
}

/** The columns of the rows while they are selected; null for all. */
const pickedColumns = <Field extends string, Table extends PgTable>({
  filters = [],
  columns,
}: ListSource<Field, Table>): SQL | null =>
  columns !== undefined && filters.every(({ search }) => search === undefined) ? columns : null

const limit = parameter('limit', 'int')
const offset = parameter('offset', 'int')

const pageStatement = <Field extends string, Table extends PgTable>(
  source: ListSource<Field, Table>,
  role: Role,
  request: PageRequest,
): Compiled => {
  // `is_admin` is a constant, so that the planner can choose the indexes of the branches.
  const caller = {
    caller: parameter('caller', 'uuid'),
    is_admin: sql.raw(String(role === 'admin')),
    in_session: sql`false`,
  }
  const { isForward, order, edge, steps, hasFrontier, total } = pickRows(source, request, caller)
  const edgeAt = (ordinal: SQL): SQL => sql`(select ${edge} from numbered where ordinal = ${ordinal})`
  const frontier = hasFrontier ? sql`(select ${edge} from frontier)` : sql`null`
  const rowJson = (row: string): SQL => source.json(aliasedTable(source.table, row), caller)
  const json =
    pickedColumns(source) === null
      ? rowJson('numbered')
      : sql`(select ${rowJson('item')} from ${fromOf(source)} where item.id = numbered.id)`
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
      ${total} as total
    from page`,
  )
}

const fromOf = ({
  table,
  from = sql`${table} item`,
}: {
  readonly table: PgTable
  readonly from?: SQL
}): SQL => from

/** The listed rows of a source. */
const listedRows = <Field extends string, Table extends PgTable>(
  source: ListSource<Field, Table>,
  request: PageRequest,
  caller: CallerPlaceholders,
): ListedRows => {
  const { filters = [] } = source
  const exact = filters.filter(({ search }) => search === undefined)
  return {
    from: fromOf(source),
    branches: source.branches(caller),
    exact: exact.map((filter) => filter.sql),
    columns: pickedColumns(source) ?? sql`item.*`,
    isSearched: exact.length < filters.length,
    maxCount: exact.length === filters.length && request.offset === 0 ? maxLimit + 1 : null,
  }
}

/** The rows of a page without searches: the first listed rows after the position. */
const exactRows = (
  list: ListedRows,
  keyset: Keyset,
  { offset: skipped, includeTotal }: PageRequest,
): PickedRows => {
  const needed = sql`${limit} + 1 + ${offset}`
  const [nearest, farther] = keyset.ranges
  const { step, rows } =
    keyset.isIndexed && nearest !== undefined && farther !== undefined && skipped === 0
      ? rangesInTurn(list, keyset, { nearest, farther, needed })
      : { step: sql``, rows: rowsAfter(list, keyset)(needed) }
  const total = keyset.isIndexed ? countListed(list) : sql`(select count(*)::int from sortable)`
  return {
    steps: sql`
        ${step}
        picked as (
          select * from (${rows}) parts order by ${keyset.order} limit ${limit} + 1 offset ${offset}
        )`,
    hasFrontier: false,
    total: includeTotal ? total : sql`null::int`,
  }
}

/**
 * The first rows of two index ranges: with a value of the sort field, and without one. `step` reads the range next to the position
 * as `nearest`; the other one is read only if it has too few rows for the page.
 */
const rangesInTurn = (
  list: ListedRows,
  keyset: Keyset,
  { nearest, farther, needed }: { readonly nearest: SQL; readonly farther: SQL; readonly needed: SQL },
): { readonly step: SQL; readonly rows: SQL } => ({
  step: sql`nearest as materialized (${rowsOfRange(list, keyset, { range: nearest, count: needed })}),`,
  rows: sql`select * from nearest union all
          select * from (${rowsOfRange(list, keyset, { range: farther, count: needed })}) farther where (select count(*) from nearest) < ${needed}`,
})

const walkOf = (list: ListedRows, keyset: Keyset): Walk => ({
  rowsOf: rowsAfter(list, keyset),
  order: keyset.order,
})

/** The rows of a page: their common table expressions, and the order and the edges of the page. */
const pickRows = <Field extends string, Table extends PgTable>(
  source: ListSource<Field, Table>,
  request: PageRequest,
  caller: CallerPlaceholders,
): PickedRows & { readonly isForward: boolean; readonly order: SQL; readonly edge: SQL } => {
  const { order, sortFields, filters = [], rank } = source
  const { position, includeTotal } = request
  const list = listedRows(source, request, caller)
  const isRanked = rank !== undefined && rankAt(order, position) !== null
  const keyset = keysetOf(order, sortFields, position, position === null || isRanked)
  const ranking = isRanked ? rankingOf(rank, keyset, position) : null
  const { steps, ...rows } = list.isSearched
    ? searchedRows({
        from: fromOf(source),
        walk: walkOf(list, keyset),
        start:
          includeTotal && position !== null && !isRanked
            ? walkOf(list, keysetOf(order, sortFields, null))
            : null,
        searched: filters.filter(({ search }) => search !== undefined),
        ranked: ranking,
        limit,
        offset,
        includeTotal,
      })
    : exactRows(list, keyset, request)
  const edge = rank === undefined ? keyset.edge : [...keyset.edge, sql`rank::text`]
  return {
    isForward: keyset.isForward,
    order: ranking?.order ?? keyset.order,
    edge: sql`json_build_array(${listOf(edge)})::text`,
    ...rows,
    steps: keyset.isIndexed ? steps : sql`${collectSortable(list, keyset)}, ${steps}`,
  }
}

/** Ranked rows come first, and in the order of the list among themselves. */
const rankingOf = (rank: SQL, { isForward, order }: Keyset, position: Position | null): Ranking => ({
  rank,
  order: listOf([indexOrder(sql`rank`, !isForward), order]),
  isAfter: position === null ? sql`true` : isAfterRanked(isForward),
})

/** The cursor of a ranked list ends with the rank; it is null if there were too many rows to rank. */
const rankAt = (order: readonly unknown[], position: Position | null): string | null | undefined =>
  position?.values[order.length]

const isAfterRanked = (isForward: boolean): SQL => sql`
  (rank, sort_0, id) ${sql.raw(isForward ? '<' : '>')}
    (${parameter('at_rank', 'int')}, ${parameter('at_0', 'instant')}, ${parameter('at_id', 'uuid')})`
