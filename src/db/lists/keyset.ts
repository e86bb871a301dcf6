import type { Position } from '../../domain/shared/cursors.ts'
import type { SortBy } from '../../domain/shared/sort.ts'
import { listOf } from '../statements/conditions.ts'
import { type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { instantText } from '../statements/instant-text.ts'
import { parameter } from '../statements/parameters.ts'

/**
 * Keyset pagination: a page starts after the sort keys of an item instead of after an offset. Rows without a value come
 * last. The id breaks ties, in the direction of the last key.
 */

/** A field that a list can be sorted by. */
export interface SortField {
  /** An expression on the row `item`. */
  readonly value: SQLWrapper
  readonly type: 'instant' | 'int' | 'text'
  readonly isNullable: boolean
  /** Whether each access branch of the list has an index in this order. */
  readonly isIndexed: boolean
}

/** A sort key in the direction of one page. A page before a position is read in reverse. */
interface Key extends SortField {
  readonly ascends: boolean
  /** The value in conditions: the indexed expression on the row `item`, otherwise the column `sort_<n>`. */
  readonly ref: SQLWrapper
  /** Whether rows without a value come last: true when reading forward. */
  readonly nullsLast: boolean
  /** The key's value in the position. */
  readonly at: SQL
  readonly isAtNull: boolean
}

/** SQL fragments for a page of rows `item` after a position. A reversed page starts with the row nearest to the position. */
export interface Keyset {
  readonly isForward: boolean
  readonly isIndexed: boolean
  /** The sort keys as columns `sort_0`, `sort_1`, … */
  readonly columns: SQL
  readonly names: SQL
  /** Conditions for the rows after the position: disjoint, and each a single index range. */
  readonly ranges: readonly SQL[]
  /** ORDER BY within a range. */
  readonly rangeOrder: SQL
  /** ORDER BY across ranges, by `columns` and `id`. */
  readonly order: SQL
  /** A row's id and sort keys, for `parseEdge`. */
  readonly edge: readonly SQL[]
}

/** With `isFromStart`, only the direction of the position is used. */
export const keysetOf = <Field extends string>(
  sortBy: readonly SortBy<Field>[],
  sortFields: Readonly<Record<Field, SortField>>,
  position: Position | null,
  isFromStart = position === null,
): Keyset => {
  const isForward = position?.direction !== 'before'
  const isIndexed = sortBy.slice(0, 1).every(({ field }) => sortFields[field].isIndexed)
  const keys = sortBy.map(({ field, descending }, index): Key => ({
    ...sortFields[field],
    ref: isIndexed ? sortFields[field].value : column(index),
    ascends: descending !== isForward,
    nullsLast: isForward,
    at: parameter(`at_${index}`, sortFields[field].type),
    isAtNull: position?.values[index] === null,
  }))
  const [first] = keys
  if (first === undefined) throw new Error('A list must have an order')
  const id = isIndexed ? sql`item.id` : sql`id`
  const idAscends = keys.at(-1)?.ascends ?? true
  const orderBy = (key: Key, value: SQLWrapper): SQL =>
    key.isNullable
      ? sql`${value} ${sql.raw(`${key.ascends ? 'asc' : 'desc'} nulls ${key.nullsLast ? 'last' : 'first'}`)}`
      : indexOrder(value, key.ascends)
  // Within an index range, the first key is either null in all rows or in none.
  const rangeOrder = keys.map((key) =>
    orderBy(key === first && isIndexed ? { ...key, isNullable: false } : key, key.value),
  )
  const tie = sql`${id} ${sign(idAscends)} ${atId}`
  const after = isFromStart ? sql`true` : isAfter(keys, tie)
  return {
    isForward,
    isIndexed,
    columns: listOf(keys.map(({ value }, index) => sql`${value} as ${column(index)}`)),
    names: listOf(keys.map((_, index) => column(index))),
    ranges: isIndexed ? indexRanges(first, keys, tie, isFromStart) : [after],
    rangeOrder: listOf([...rangeOrder, indexOrder(sql`item.id`, idAscends)]),
    order: listOf([...keys.map((key, index) => orderBy(key, column(index))), indexOrder(sql`id`, idAscends)]),
    edge: [
      sql`id`,
      ...keys.map(({ type }, index) =>
        type === 'instant' ? instantText(column(index)) : sql`${column(index)}::text`,
      ),
    ],
  }
}

/** Parameter values of a keyset. */
export const positionValues = (position: Position | null): Readonly<Record<string, unknown>> => ({
  at_id: position?.id,
  ...Object.fromEntries(position?.values.map((value, index) => [`at_${index}`, value]) ?? []),
})

/** Parses the id and the sort keys of a page's first or last row. */
export const parseEdge = (json: string | null): Omit<Position, 'direction'> | null => {
  if (json === null) return null
  const [id, ...values] = JSON.parse(json) as [string, ...(string | null)[]]
  return { id, values }
}

const column = (index: number): SQL => sql.raw(`sort_${index}`)
const atId = parameter('at_id', 'uuid')

/** The order of the indexes, or its reverse. The NULLS clause must match too, or the planner does not use the index. */
export const indexOrder = (value: SQLWrapper, ascends: boolean): SQL =>
  sql`${value} ${sql.raw(ascends ? 'asc nulls first' : 'desc nulls last')}`

/** Rows without a value are a separate range, since a comparison with null never holds. */
const indexRanges = (first: Key, keys: readonly Key[], tie: SQL, isFromStart: boolean): readonly SQL[] => {
  const { value, at, ascends, isNullable, nullsLast, isAtNull } = first
  const absent = sql`${value} is null`
  const present = sql`${value} is not null`
  if (isFromStart) return isNullable ? [present, absent] : [sql`true`]
  if (isAtNull) {
    const after = sql`${absent} and ${isAfter(keys.slice(1), tie)}`
    return nullsLast ? [after] : [after, present]
  }
  const after =
    keys.length === 1
      ? sql`(${value}, item.id) ${sign(ascends)} (${at}, ${atId})`
      : sql`${value} ${sign(ascends)}= ${at} and ${isAfter(keys, tie)}`
  return isNullable && nullsLast ? [after, absent] : [after]
}

const sign = (ascends: boolean): SQL => sql.raw(ascends ? '>' : '<')

/** Whether a row sorts after the position by these keys, then by id. */
const isAfter = (keys: readonly Key[], tie: SQL): SQL => {
  const [key, ...rest] = keys
  if (key === undefined) return tie
  const { ref: value, at, isAtNull, nullsLast, isNullable, ascends } = key
  const then = isAfter(rest, tie)
  if (isAtNull)
    return nullsLast
      ? sql`(${value} is null and ${then})`
      : sql`(${value} is not null or ${value} is null and ${then})`
  const absent = isNullable && nullsLast ? sql` or ${value} is null` : sql``
  return sql`(${value} ${sign(ascends)} ${at} or ${value} = ${at} and ${then}${absent})`
}
