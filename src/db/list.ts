import { type SQL, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import type { Position } from '../domain/cursors.ts'
import type { Principal, Role } from '../domain/permissions.ts'
import type { SortBy } from '../domain/sort.ts'
import type { Database } from './client.ts'
import { instantText } from './json.ts'
import type { CallerPlaceholders } from './permissions.ts'
import {
  type Compiled,
  compile,
  onlyRow,
  parameter,
  type ParameterType,
  type ParameterTypes,
  runCompiled,
} from './statement.ts'

/**
 * Lists: a resource declares which of its fields filter and which sort, and this makes of them one statement for a page.
 *
 * Such a statement reads a page's rows and little more, however many there are and however deep it begins, where an
 * index has the order. For that it is put together from parts that an index can serve each, and that are merged: one for
 * each reason why the caller sees a row, and each of these in two where the first sort key can be missing.
 */

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
}

/** A field that a list can be filtered by, with a value. */
export interface FilterField<T extends ParameterType> {
  readonly type: T
  readonly holds: (value: SQL) => SQL
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
  Record<string, FilterField<ParameterType> | FilterChoice<'text' | 'uuid'> | FilterFlag>
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
  // An index has the order of what is behind a column that equals one value, and not of what equals one of several.
  const [only, ...others] = value as readonly string[]
  return only !== undefined && others.length === 0
    ? {
        shape: `${name} one`,
        sql: sql`${field.value} = ${parameter(parameterName, field.one)}`,
        values: { [parameterName]: only },
      }
    : {
        shape: name,
        sql: sql`${field.value} = any(${parameter(parameterName, field.type)})`,
        values: { [parameterName]: value },
      }
}

/** A field that a list can be sorted by. */
export interface SortField {
  /** An expression on the row `item`. */
  readonly value: SQL
  readonly type: 'instant' | 'int' | 'real' | 'text'
  readonly isNullable: boolean
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
  /** Why the caller sees a row: for each row that they see exactly one of these holds. */
  readonly seenBecause: (caller: CallerPlaceholders) => readonly SQL[]
  /** What holds for every row of the list, whoever asks and for what. */
  readonly conditions?: readonly Condition[]
  /** What the caller asks for; all must hold. */
  readonly filters: readonly Condition[]
  readonly sortFields: Readonly<Record<Field, SortField>>
  /** By which fields the list is sorted; ties are broken by the id, in the direction of the last one. */
  readonly order: readonly SortBy<Field>[]
  /** What is joined to the rows of a page for `json`. */
  readonly joined?: (rows: SQL, caller: CallerPlaceholders) => SQL
  /** The JSON text of a row. */
  readonly json: (row: SQL, caller: CallerPlaceholders) => SQL
  /** Values for other parameters than those of the conditions. */
  readonly values?: Readonly<Record<string, unknown>>
}

const pageColumns = { items: 'text', near: 'text?', far: 'text?', total: 'int?' } as const

/**
 * What the caller filters by is planned anew each time: which index is best depends on the values, and the plan of a
 * prepared statement that is to fit all of them reads the whole table for a rare one. Orders are many too, and the driver
 * forgets no statement that it has prepared, so only the first ones are.
 */
const mostPrepared = 200
let prepared = 0
const statements = new LRUCache<string, Compiled & { readonly isPrepared: boolean }>({ max: 500 })

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
    ...Object.fromEntries(conditionsIn(source).flatMap((condition) => Object.entries(condition.values))),
    ...positionValues(position),
    caller: principal.userId,
    limit,
    offset,
  }
  const row = onlyRow(await runCompiled(db, compiled, pageColumns, values, compiled.isPrepared))
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

const conditionsIn = <Field extends string>({
  conditions = [],
  filters,
}: ListSource<Field>): readonly Condition[] => [...conditions, ...filters]

const positionValues = (position: Position | null): Readonly<Record<string, unknown>> =>
  position === null
    ? {}
    : {
        at_id: position.id,
        ...Object.fromEntries(position.values.map((value, index) => [`at_${index}`, value])),
      }

/** The id and the sort keys of the first or last row of a page. */
const parseEdge = (json: string | null): Omit<Position, 'direction'> | null => {
  if (json === null) return null
  const [id, ...values] = JSON.parse(json) as [string, ...(string | null)[]]
  return { id, values }
}

const prepare = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  request: PageRequest,
): Compiled & { readonly isPrepared: boolean } => {
  const { position, includeTotal } = request
  const shape = JSON.stringify([
    source.name,
    role,
    conditionsIn(source).map((condition) => condition.shape),
    source.order,
    position && [position.direction, position.values.map((value) => value === null)],
    includeTotal,
  ])
  const known = statements.get(shape)
  if (known !== undefined) return known
  const isPrepared = source.filters.length === 0 && prepared < mostPrepared
  if (isPrepared) prepared += 1
  const compiled = { ...compile(pageStatement(source, role, request)), isPrepared }
  statements.set(shape, compiled)
  return compiled
}

/** A sort key as one page reads it: backwards, everything turns round. */
interface Key extends SortField {
  readonly ascends: boolean
  /** Whether rows without a value come last, as they do when reading forwards. */
  readonly nullsLast: boolean
  /** Its value in the position. */
  readonly at: SQL
  readonly isAtNull: boolean
}

const id = sql`item.id`
const limit = parameter('limit', 'int')
const offset = parameter('offset', 'int')

const pageStatement = <Field extends string>(
  source: ListSource<Field>,
  role: Role,
  { position, includeTotal }: PageRequest,
): SQL => {
  const { from, seenBecause, sortFields, order, joined, json } = source
  // The role is part of the shape and so a constant here: the planner sees which indexes can serve the condition.
  const caller = {
    caller: parameter('caller', 'uuid'),
    is_admin: role === 'admin' ? sql`true` : sql`false`,
    in_session: sql`false`,
  }
  const isForward = position?.direction !== 'before'
  const keys = order.map(({ field, descending }, index): Key => {
    const { type, value, isNullable } = sortFields[field]
    const ascends = descending !== isForward
    const isAtNull = position?.values[index] === null
    return {
      type,
      value,
      isNullable,
      ascends,
      nullsLast: isForward,
      at: parameter(`at_${index}`, type),
      isAtNull,
    }
  })
  const idAscends = keys.at(-1)?.ascends ?? true
  const seen = seenBecause(caller)
  const matching = (reason: SQL): SQL =>
    sql`from ${from} where ${conjunction([reason, ...conditionsIn(source).map((condition) => condition.sql)])}`

  const columns = keys.map(({ value }, index) => sql`${value} as ${sort(index)}`)
  const inOrder = sql.join(
    [
      ...keys.map((key, index) =>
        // A part has none or nothing but rows without the first key.
        index === 0 ? asIndexed(key.value, key.ascends) : ordered(key.value, key),
      ),
      asIndexed(id, idAscends),
    ],
    sql`, `,
  )
  const parts = seen.flatMap((reason) =>
    ranges(keys, idAscends, position !== null).map(
      (range) => sql`(
        select item.*, ${sql.join(columns, sql`, `)} ${matching(reason)} and ${range}
        order by ${inOrder} limit ${limit} + 1 + ${offset})`,
    ),
  )
  const mergedOrder = sql.join(
    [...keys.map((key, index) => ordered(sort(index), key)), asIndexed(sql`id`, idAscends)],
    sql`, `,
  )
  const edge = sql`json_build_array(${sql.join([sql`id`, ...keys.map((key, index) => edgeText(key, sort(index)))], sql`, `)})::text`
  return sql`
    with numbered as (
      select picked.*, row_number() over (order by ${mergedOrder}) as position
      from (select * from (${sql.join(parts, sql` union all `)}) part order by ${mergedOrder} limit ${limit} + 1 offset ${offset}) picked
    )
    select
      '[' || coalesce(string_agg(${json(sql`numbered`, caller)}, ',' order by position ${isForward ? sql`` : sql`desc`})
        filter (where position <= ${limit}), '') || ']' as items,
      max(${edge}) filter (where position = 1) as near,
      case when count(*) > ${limit} then max(${edge}) filter (where position = ${limit}) end as far,
      ${
        includeTotal
          ? sql`(${sql.join(
              seen.map((reason) => sql`(select count(*)::int ${matching(reason)})`),
              sql` + `,
            )})`
          : sql`null::int`
      } as total
    from numbered ${joined?.(sql`numbered`, caller) ?? sql``}`
}

const sort = (index: number): SQL => sql.raw(`sort_${index}`)

const conjunction = (conditions: readonly SQL[]): SQL => sql.join([...conditions], sql` and `)

/** The order of the indexes, one way or the other: the planner knows them by where NULLS would be. */
const asIndexed = (value: SQL, ascends: boolean): SQL =>
  sql`${value} ${sql.raw(ascends ? 'asc nulls first' : 'desc nulls last')}`

const ordered = (value: SQL, { ascends, nullsLast, isNullable }: Key): SQL =>
  isNullable
    ? sql`${value} ${sql.raw(`${ascends ? 'asc' : 'desc'} nulls ${nullsLast ? 'last' : 'first'}`)}`
    : asIndexed(value, ascends)

/** A key's value as a cursor keeps it; `at` reads it back without loss. */
const edgeText = ({ type }: Key, value: SQL): SQL =>
  type === 'instant' ? instantText(value) : sql`${value}::text`

/**
 * The ranges of rows behind the position that an index on the first key and the id can serve, none of which has a row of
 * another. Rows without a value are one, since no comparison finds them.
 */
const ranges = (keys: readonly Key[], idAscends: boolean, hasPosition: boolean): readonly SQL[] => {
  const [first, ...rest] = keys
  if (first === undefined) throw new Error('A list has an order')
  const absent = sql`${first.value} is null`
  const present = sql`${first.value} is not null`
  if (!hasPosition) return first.isNullable ? [present, absent] : [sql`true`]
  if (first.isAtNull) {
    const behind = sql`${absent} and (${isBehind(rest, idAscends)})`
    return first.nullsLast ? [behind] : [behind, present]
  }
  const operator = sign(first.ascends)
  const behind =
    rest.length === 0
      ? sql`(${first.value}, ${id}) ${operator} (${first.at}, ${atId})`
      : sql`${first.value} ${operator}= ${first.at} and (${isBehind(keys, idAscends)})`
  return first.isNullable && first.nullsLast ? [behind, absent] : [behind]
}

const atId = parameter('at_id', 'uuid')

const sign = (ascends: boolean): SQL => sql.raw(ascends ? '>' : '<')

/** Whether `item` comes behind the position by these keys, and then by the id. */
const isBehind = (keys: readonly Key[], idAscends: boolean): SQL => {
  const [key, ...rest] = keys
  if (key === undefined) return sql`${id} ${sign(idAscends)} ${atId}`
  const { value, at, isAtNull, nullsLast, isNullable, ascends } = key
  const then = isBehind(rest, idAscends)
  if (isAtNull) {
    const same = sql`${value} is null and (${then})`
    return nullsLast ? same : sql`${value} is not null or ${same}`
  }
  const behind = sql`${value} ${sign(ascends)} ${at} or ${value} = ${at} and (${then})`
  return isNullable && nullsLast ? sql`${behind} or ${value} is null` : behind
}
