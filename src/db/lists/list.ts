import { LRUCache } from 'lru-cache'
import type { Position } from '../../domain/cursors.ts'
import type { Principal, Role } from '../../domain/permissions.ts'
import type { SortBy } from '../../domain/sort.ts'
import type { Database, Manner } from '../engine/client.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { type Keyset, keysetOf, parseEdge, positionValues, type SortField } from './keyset.ts'
import type { CallerPlaceholders } from '../access/permissions.ts'
import { parameter, type ParameterType, type ParameterTypes } from '../engine/parameters.ts'
import { type Compiled, compile, onlyRow, runCompiled } from '../engine/statement.ts'
import { searchedRows, type TextSearch } from './searched.ts'
import { firstOfUneven } from './uneven.ts'

/**
 * Lists: a resource declares which of its fields filter and which sort, and this makes of them one statement for a page.
 *
 * Such a statement reads a page's rows and little more, however many there are and however deep it begins, where an
 * index has the order. For that it merges parts that an index can serve each: one for each reason why the caller sees a
 * row, and one for each range of the keyset.
 */

/** How many items a page has when nothing is said. */
export const defaultLimit = 50

/** The most items of a page, as the contract has it. */
export const largestLimit = 200

/** Which part of a list is asked for; every list takes the same. */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
  /** Where to read on; null at the beginning. */
  readonly position: Position | null
  readonly includeTotal: boolean
}

/** A page: `items` is the text of a JSON array; `next` and `previous` say where there is more. */
export interface Page {
  readonly items: string
  readonly next: Position | null
  readonly previous: Position | null
  readonly total: number | null
}

/** A condition on the row `item`, with the values of its parameters. */
export interface Condition {
  /** Tells it from other conditions: statements with the same shape have the same text. */
  readonly shape: string
  readonly sql: SQL
  readonly values: Readonly<Record<string, unknown>>
  /** The comparison that it is, where an index has the order of the field. */
  readonly range?: Range
  /** What it costs, if no index has the order of the list for it: it is asked of a bounded number of rows. */
  readonly search?: TextSearch
}

/** A comparison of a field of the row `item`. */
export interface Range {
  readonly field: string
  readonly operator: '=' | '<' | '<=' | '>' | '>='
  readonly value: SQL
}

/** The condition that a range is. */
export const inRange = ({ field, operator, value }: Range): SQL =>
  sql`item.${sql.raw(field)} ${sql.raw(operator)} ${value}`

/** A field that a list can be filtered by, with a value. */
export interface FilterField<T extends ParameterType> {
  readonly type: T
  readonly holds: (value: SQL) => SQL
}

/** A field that a list can be filtered by, with an end of a range. */
export interface FilterRange extends Omit<Range, 'value'> {
  readonly type: 'instant'
}

/** A field that a list can be filtered by, with one value of several. */
export interface FilterChoice<T extends 'text' | 'uuid'> {
  readonly type: `${T}[]`
  readonly one: T
  readonly value: SQL
}

/** What a list can be filtered by without a value: it holds, or it does not. */
export interface FilterFlag {
  readonly type: 'flag'
  readonly holds: SQL
  readonly fails: SQL
}

/** Declares a filter with a value; `holds` is its condition on the row `item`. */
export const filterBy = <T extends ParameterType>(type: T, holds: (value: SQL) => SQL): FilterField<T> => ({
  type,
  holds,
})

/** Declares a filter by a range of a field that an index has the order of. */
export const filterRange = (field: string, operator: Range['operator']): FilterRange => ({
  type: 'instant',
  field,
  operator,
})

/** Declares a filter with one value of several for an expression on the row `item`. */
export const filterOneOf = <T extends 'text' | 'uuid'>(one: T, value: SQL): FilterChoice<T> => ({
  type: `${one}[]`,
  one,
  value,
})

/** Declares a filter that is true or false, with a condition on the row `item` for each. */
export const filterFlag = (holds: SQL, fails: SQL = sql`not (${holds})`): FilterFlag => ({
  type: 'flag',
  holds,
  fails,
})

type FilterFields = Readonly<
  Record<string, FilterField<ParameterType> | FilterRange | FilterChoice<'text' | 'uuid'> | FilterFlag>
>
type FilterValues<F extends FilterFields> = {
  readonly [Name in keyof F]?: F[Name] extends { readonly type: infer T extends ParameterType }
    ? ParameterTypes[T]
    : boolean
}

/** The conditions of the filters that have a value. */
export const conditionsOf = <F extends FilterFields>(fields: F, values: FilterValues<F>): Condition[] =>
  Object.entries(fields).flatMap(([name, field]) => {
    const value: unknown = values[name]
    return value === undefined ? [] : [conditionOf(name, field, value)]
  })

const conditionOf = (name: string, field: FilterFields[string], value: unknown): Condition => {
  const parameterName = `by_${name}`
  if ('fails' in field)
    return { shape: `${name} ${value === true}`, sql: value === true ? field.holds : field.fails, values: {} }
  if ('holds' in field) {
    const sql = field.holds(parameter(parameterName, field.type))
    return { shape: name, sql, values: { [parameterName]: value } }
  }
  if ('operator' in field) {
    const range = { ...field, value: parameter(parameterName, field.type) }
    return { shape: name, sql: inRange(range), values: { [parameterName]: value }, range }
  }
  const choices = value as readonly string[]
  const values: Record<string, unknown> = {}
  const bind: Bind = (type, bound) => {
    values[parameterName] = bound
    return parameter(parameterName, type)
  }
  const sql = isOneOf(field.value, field.one, choices, bind)
  return { shape: choices.length === 1 ? `${name} one` : name, sql, values }
}

/** Makes a parameter of a value that the caller wrote. */
export type Bind = <Type extends ParameterType>(type: Type, value: ParameterTypes[Type]) => SQL

/**
 * The condition that a value is one of these. An index has the order of what is behind a column that equals one value, and
 * tells where one behind its order equals it; of what equals one of several it does neither.
 */
export const isOneOf = (value: SQL, type: 'text' | 'uuid', choices: readonly string[], bind: Bind): SQL => {
  const [only, ...others] = choices
  return only !== undefined && others.length === 0
    ? sql`${value} = ${bind(type, only)}`
    : sql`${value} = any(${bind(`${type}[]`, choices)})`
}

/** The order of most lists. */
export const newestFirst: readonly SortBy<'created_at'>[] = [{ field: 'created_at', descending: true }]
export const createdAt: SortField = { value: sql`item.created_at`, type: 'instant', isNullable: false }

/** What a list is made of. Its rows are named `item` and have an `id`. */
export interface ListSource<Field extends string> {
  /** Names the list. */
  readonly name: string
  /** What comes behind FROM. */
  readonly from: SQL
  /** What all of the statement shares, to be read once: its name and a query. */
  readonly shared?: (caller: CallerPlaceholders) => readonly [name: SQL, query: SQL]
  /** Why the caller sees a row: for each row that they see exactly one of these holds. */
  readonly seenBecause: (caller: CallerPlaceholders) => readonly SQL[]
  /** What holds for every row of the list, whoever asks and for what. */
  readonly conditions?: readonly Condition[]
  /** What the caller asks for; all must hold. */
  readonly filters: readonly Condition[]
  readonly sortFields: Readonly<Record<Field, SortField>>
  /** Fields that are never before another one, and which. */
  readonly neverBefore?: Readonly<Record<string, string>>
  /** By which fields the list is sorted; ties are broken by the id, in the direction of the last one. */
  readonly order: readonly SortBy<Field>[]
  /** Rows for which it holds come first if few enough pass the filters to be sorted. Only for lists with the newest first. */
  readonly rank?: SQL
  /** The JSON text of a row. */
  readonly json: (row: SQL, caller: CallerPlaceholders) => SQL
  /** Values for other parameters than those of the conditions. */
  readonly values?: Readonly<Record<string, unknown>>
}

const pageColumns = { items: 'text', near: 'text?', far: 'text?', total: 'int?' } as const

/** Octets of the items of a page, as JSON: a page ends with the item that passes it. */
export const maxPageOctets = 1_048_576

/** Compiled statements. What a caller can make up replaces what was used least recently. */
const statements = new LRUCache<string, Compiled & { readonly manner: Manner }>({ max: 500 })

/**
 * One page of a list as the principal sees it, in one statement: the items, where there is more, and the total if asked
 * for.
 */
export const selectPage = async <Field extends string>(
  db: Database,
  source: ListSource<Field>,
  principal: Principal,
  request: PageRequest,
): Promise<Page> => {
  const compiled = prepare(source, principal.role, request)
  const { position, limit, offset } = request
  const values = {
    ...source.values,
    ...valuesOf(conditionsIn(source)),
    ...positionValues(source.rank === undefined ? position : withoutRank(position)),
    at_rank: Number(position?.values[0]),
    caller: principal.userId,
    limit,
    offset,
  }
  const row = onlyRow(await runCompiled(db, compiled, pageColumns, values, compiled.manner))
  if (row === null) throw new Error('A list statement answers with one row')

  const [near, far] = [parseEdge(row.near), parseEdge(row.far)]
  const { items, total } = row
  if (position?.direction === 'before') {
    return {
      items,
      total,
      previous: far && { direction: 'before', ...far },
      next: near && { direction: 'after', ...near },
    }
  }
  const isFirst = position === null && offset === 0
  return {
    items,
    total,
    previous: isFirst ? null : near && { direction: 'before', ...near },
    next: far && { direction: 'after', ...far },
  }
}

const valuesOf = (conditions: readonly Condition[]): Readonly<Record<string, unknown>> =>
  Object.fromEntries(conditions.flatMap(({ values }) => Object.entries(values)))

/**
 * Ranges of fields that the list is not sorted by first: the planner takes them to be independent of the order. In a range a
 * member has no more rows than they see.
 */
const unevenConditions = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
): readonly Condition[] => {
  const first = firstIndexed(source)
  return source.filters.filter(
    ({ range }) => role === 'admin' && range !== undefined && range.field !== first,
  )
}

/** The field whose index has the order of the list. */
const firstIndexed = <Field extends string>({ order }: ListSource<Field>): Field | undefined =>
  order[0]?.field

/**
 * What the ranges of other fields say of the one that the list is sorted by first: what was completed before a day was
 * created before it, too. So the index with the order is read from there on.
 */
const impliedRanges = <Field extends string>(source: ListSource<Field>): readonly SQL[] => {
  const { filters, sortFields, neverBefore = {} } = source
  const first = firstIndexed(source)
  if (first === undefined || sortFields[first].isNullable) return []
  return filters.flatMap(({ range }) => {
    if (range === undefined) return []
    const isImplied =
      (range.operator.startsWith('<') && neverBefore[range.field] === first) ||
      (range.operator.startsWith('>') && neverBefore[first] === range.field)
    return isImplied ? [inRange({ ...range, field: first })] : []
  })
}

const conditionsIn = <Field extends string>({
  conditions = [],
  filters,
}: ListSource<Field>): readonly Condition[] => [...conditions, ...filters]

const prepare = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  request: PageRequest,
): Compiled & { readonly manner: Manner } => {
  const { position, offset, includeTotal } = request
  const shape = JSON.stringify([
    source.name,
    role,
    conditionsIn(source).map((condition) => condition.shape),
    source.order,
    source.rank !== undefined,
    position && [position.direction, position.values.map((value) => value === null)],
    includeTotal,
    offset > 0,
  ])
  const known = statements.get(shape)
  if (known !== undefined) return known
  const manner: Manner = isPrepared(source, request) ? 'prepared' : 'once'
  const compiled = { ...compile(`${source.name}.list`, pageStatement(source, role, request)), manner }
  statements.set(shape, compiled)
  return compiled
}

const isUnfiltered = <Field extends string>({ filters }: ListSource<Field>): boolean => filters.length === 0

/**
 * A connection keeps what it has prepared until it ends, so these statements are a fixed set that no caller can extend. What
 * is filtered is planned each time in any case: which index is best depends on the values.
 */
const isPrepared = <Field extends string>(source: ListSource<Field>, request: PageRequest): boolean =>
  isUnfiltered(source) && source.order.length === 1 && request.offset === 0 && !request.includeTotal

const limit = parameter('limit', 'int')
const offset = parameter('offset', 'int')

/** How many rows a page needs. */
const rowsNeeded = sql`${limit} + 1 + ${offset}`

/**
 * The first rows of a query, as many as a page needs. PostgreSQL keeps the plan of a prepared statement if it expects no
 * better one from planning anew, and of a limit that it does not know it expects a tenth of all rows. For an administrator,
 * who sees all of them, that is far too much unless a constant bounds it; for others it is not.
 */
const firstRows = (rows: SQL, isBounded: boolean): SQL =>
  isBounded
    ? sql`select * from (${rows} limit ${sql.raw(String(largestLimit + 1))}) item limit ${rowsNeeded}`
    : sql`${rows} limit ${rowsNeeded}`

const pageStatement = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  request: PageRequest,
): SQL => {
  // The role is part of the shape and so a constant here: the planner sees which indexes can serve the condition.
  const caller = {
    caller: parameter('caller', 'uuid'),
    is_admin: role === 'admin' ? sql`true` : sql`false`,
    in_session: sql`false`,
  }
  const isSearched = conditionsIn(source).some(({ search }) => search !== undefined)
  const { keyset, steps, frontier, total } = isSearched
    ? searchPage(source, role, request, caller)
    : indexedPage(source, role, request, caller)
  const row = sql`numbered`
  const json = sql`cross join lateral (select ${source.json(row, caller)} as json offset 0) item`
  const edgeAt = (position: SQL): SQL =>
    sql`(select ${keyset.edge} from numbered where position = ${position})`
  // Renders one row after the other, since an item may take megabytes, until the page is full.
  return sql`
    with recursive ${shared(source.shared?.(caller))} ${steps}, numbered as materialized (
      select picked.*, row_number() over (order by ${keyset.order}) as position from picked
    ), rendered (position, json, octets) as (
      select position, item.json, octet_length(item.json) from numbered ${json} where position = 1
      union all
      select numbered.position, item.json, octets + octet_length(item.json)
      from rendered join numbered on numbered.position = rendered.position + 1 ${json}
      where octets < ${sql.raw(String(maxPageOctets))} and numbered.position <= ${limit}
    ), page as (
      select '[' || coalesce(string_agg(json, ',' order by position ${keyset.isForward ? sql`` : sql`desc`}), '') || ']' as items,
        count(*) as shown
      from rendered
    )
    select items, coalesce(${edgeAt(sql`1`)}, ${frontier}) as near,
      case when shown < (select count(*) from numbered) then ${edgeAt(sql`shown`)} else ${frontier} end as far,
      ${total} as total
    from page`
}

/** How a page is picked. */
interface PickedPage {
  readonly keyset: Keyset
  /** Common table expressions; the last one is `picked` and has the rows of the page and one more, if there is one. */
  readonly steps: SQL
  /** The edge of the last row that was examined, if rows behind it were not; else null. */
  readonly frontier: SQL
  readonly total: SQL
}

/** A page of a list all of whose conditions are asked in the order of an index. */
const indexedPage = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  request: PageRequest,
  caller: CallerPlaceholders,
): PickedPage => {
  const keyset = keysetOf(source.order, source.sortFields, request.position)
  const inOrder = sql`order by ${keyset.indexOrder}`
  const isBounded = role === 'admin' && isUnfiltered(source) && request.offset === 0
  const reasons = source.seenBecause(caller)
  const all = conditionsIn(source)
  const uneven = unevenConditions(source, role)
  const even = evenConditions(source, uneven)
  const from = sql`from ${source.from}`
  const firstOf = (reason: SQL, range: SQL): SQL => {
    const rows = allOf([reason, range, ...even])
    if (uneven.length === 0)
      return sql`(${firstRows(sql`select item.*, ${keyset.columns} ${from} where ${rows} ${inOrder}`, isBounded)})`
    const conditions = allOf(uneven.map((filter) => filter.sql))
    const first = firstOfUneven({
      from,
      rows,
      conditions,
      reason,
      ranges: byField(uneven),
      inOrder,
      most: rowsNeeded,
    })
    return sql`(select item.*, ${keyset.columns} from (${first}) item)`
  }
  const firstOfAll = (range: SQL): SQL => union(reasons.map((reason) => firstOf(reason, range)))
  const [nearest, farther] = keyset.parts
  const behind = farther && (request.offset === 0 ? unlessFull(firstOfAll(farther)) : firstOfAll(farther))
  const counts = reasons.map(
    (reason) =>
      sql`(select count(*)::int ${from} where ${allOf([reason, ...all.map((condition) => condition.sql)])})`,
  )
  return {
    keyset,
    steps: sql`nearest as (
      ${firstOfAll(nearest)}
    ), picked as (
      select * from (select * from nearest ${behind === undefined ? sql`` : sql`union all ${behind}`}) parts
      order by ${keyset.order} limit ${limit} + 1 offset ${offset}
    )`,
    frontier: sql`null::text`,
    total: request.includeTotal ? sql.join(counts, sql` + `) : sql`null::int`,
  }
}

/** A page of a list with conditions that are asked of a bounded number of rows. */
const searchPage = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  { position, includeTotal }: PageRequest,
  caller: CallerPlaceholders,
): PickedPage => {
  const { order, sortFields, rank } = source
  const uneven = unevenConditions(source, role)
  const asked = conditionsIn(source).filter((one) => one.search !== undefined || uneven.includes(one))
  const even = evenConditions(source, asked)
  const reasons = source.seenBecause(caller)
  const isRanked = rank !== undefined && !isUnranked(position)
  const keyset = keysetOf(order, sortFields, rank === undefined ? position : withoutRank(position), {
    hasRank: rank !== undefined,
    ...(isRanked && { isFromStart: true }),
  })
  const fromStart = keysetOf(order, sortFields, null)
  const rowsOf =
    ({ columns, indexOrder, parts }: Keyset) =>
    (from: SQL, count: SQL): SQL =>
      union(
        parts.flatMap((range) =>
          range === undefined
            ? []
            : reasons.map(
                (reason) => sql`(
                  select item.*, ${columns} from ${from} where ${allOf([reason, range, ...even])}
                  order by ${indexOrder} limit ${count})`,
              ),
        ),
      )
  const pieces = searchedRows({
    from: source.from,
    keyset,
    rowsFrom: rowsOf(keyset),
    start:
      includeTotal && position !== null && !isRanked
        ? { rowsFrom: rowsOf(fromStart), order: fromStart.order }
        : null,
    conditions: allOf(asked.map((condition) => condition.sql)),
    searches: asked.flatMap(({ search }) => search ?? []),
    ...(isRanked && { rank }),
    isBehind: position === null ? null : isBehindRanked(keyset.isForward),
    limit,
    offset,
    includeTotal,
  })
  return { keyset: isRanked ? { ...keyset, order: keyset.rankedOrder } : keyset, ...pieces }
}

/** A cursor of a ranked list has the rank first; null where the rows were too many to be ranked. */
const isUnranked = (position: Position | null): boolean => position !== null && position.values[0] === null

const withoutRank = (position: Position | null): Position | null =>
  position && { ...position, values: position.values.slice(1) }

const isBehindRanked = (isForward: boolean): SQL => sql`
  (rank, sort_0, id) ${sql.raw(isForward ? '<' : '>')}
    (${parameter('at_rank', 'int')}, ${parameter('at_0', 'instant')}, ${parameter('at_id', 'uuid')})`

const union = (queries: readonly SQL[]): SQL => sql.join([...queries], sql` union all `)

/** What is asked of each row in the order of an index. */
const evenConditions = <Field extends string>(
  source: ListSource<Field>,
  others: readonly Condition[],
): readonly SQL[] => [
  ...conditionsIn(source)
    .filter((condition) => !others.includes(condition))
    .map((condition) => condition.sql),
  ...impliedRanges(source),
]

/**
 * What comes behind the nearest rows is read only if these do not fill the page. They have to be kept for that, so not behind
 * a large offset.
 */
const unlessFull = (rows: SQL): SQL =>
  sql`select * from (${rows}) farther where (select count(*) from nearest) < ${rowsNeeded}`

const allOf = (conditions: readonly SQL[]): SQL => sql.join([...conditions], sql` and `)

/** For each field the ranges of it. */
const byField = (conditions: readonly Condition[]): readonly SQL[] => {
  const ranges = conditions.flatMap(({ range }) => range ?? [])
  return [...Map.groupBy(ranges, ({ field }) => field).values()].map((ofField) => allOf(ofField.map(inRange)))
}

const shared = (expression: readonly [SQL, SQL] | undefined): SQL =>
  expression === undefined ? sql`` : sql`${expression[0]} as materialized (${expression[1]}),`
