import type { Position } from '../../domain/cursors.ts'
import type { SortBy } from '../../domain/sort.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { instantText } from '../engine/instant-text.ts'
import { parameter } from '../engine/parameters.ts'

/**
 * Where a page begins, by the sort keys of the item before it and not by a number of items. Rows without a value come last;
 * ties are broken by the id, in the direction of the last key.
 */

/** A field that a list can be sorted by. */
export interface SortField {
  /** An expression on the row `item`. */
  readonly value: SQL
  readonly type: 'instant' | 'int' | 'text'
  readonly isNullable: boolean
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

/** The pieces of a statement for a page of rows `item` from a position on; backwards, the nearest row comes first. */
export interface Keyset {
  readonly isForward: boolean
  /** The sort keys as columns, for what is not `item` any more. */
  readonly columns: SQL
  /**
   * The rows behind the position in parts, each a range of an index on the first key and the id. The rows of the second part,
   * if there is one, come behind those of the first.
   */
  readonly parts: readonly [SQL, SQL?]
  /** The order within a part, as such an index has it. */
  readonly indexOrder: SQL
  /** The order of all rows, by `columns` and `id`. */
  readonly order: SQL
  /** The same behind the column `rank`, greatest first. */
  readonly rankedOrder: SQL
  /** What `parseEdge` reads. */
  readonly edge: SQL
}

interface KeysetOptions {
  /** Whether edges begin with the column `rank`. */
  readonly hasRank?: boolean
  /** Whether the position is only to tell the direction. */
  readonly isFromStart?: boolean
}

export const keysetOf = <Field extends string>(
  sortBy: readonly SortBy<Field>[],
  sortFields: Readonly<Record<Field, SortField>>,
  position: Position | null,
  { hasRank = false, isFromStart = position === null }: KeysetOptions = {},
): Keyset => {
  const isForward = position?.direction !== 'before'
  const keys = sortBy.map(({ field, descending }, index): Key => {
    return {
      ...sortFields[field],
      ascends: descending !== isForward,
      nullsLast: isForward,
      at: parameter(`at_${index}`, sortFields[field].type),
      isAtNull: position?.values[index] === null,
    }
  })
  const idAscends = keys.at(-1)?.ascends ?? true
  const columns = keys.map(({ value }, index) => sql`${value} as ${column(index)}`)
  // A part has none or nothing but rows without the first key.
  const indexOrder = keys.map((key, index) =>
    index === 0 ? asIndexed(key.value, key.ascends) : ordered(key.value, key),
  )
  const order = list([
    ...keys.map((key, index) => ordered(column(index), key)),
    asIndexed(sql`id`, idAscends),
  ])
  const texts = keys.map((key, index) => edgeText(key, column(index)))
  return {
    isForward,
    columns: list(columns),
    parts: partsOf(keys, idAscends, !isFromStart),
    indexOrder: list([...indexOrder, asIndexed(itemId, idAscends)]),
    order,
    rankedOrder: list([asIndexed(sql`rank`, !isForward), order]),
    edge: sql`json_build_array(${list([sql`id`, ...(hasRank ? [sql`rank::text`] : []), ...texts])})::text`,
  }
}

/** Values for the parameters of a keyset. */
export const positionValues = (position: Position | null): Readonly<Record<string, unknown>> =>
  position === null
    ? {}
    : {
        at_id: position.id,
        ...Object.fromEntries(position.values.map((value, index) => [`at_${index}`, value])),
      }

/** The id and the sort keys of the first or last row of a page. */
export const parseEdge = (json: string | null): Omit<Position, 'direction'> | null => {
  if (json === null) return null
  const [id, ...values] = JSON.parse(json) as [string, ...(string | null)[]]
  return { id, values }
}

const itemId = sql`item.id`
const atId = parameter('at_id', 'uuid')
const column = (index: number): SQL => sql.raw(`sort_${index}`)
const list = (items: readonly SQL[]): SQL => sql.join([...items], sql`, `)

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
 * The parts of the rows behind the position, none of which has a row of another. Rows without a value are one, since no
 * comparison finds them.
 */
const partsOf = (keys: readonly Key[], idAscends: boolean, hasPosition: boolean): readonly [SQL, SQL?] => {
  const [first, ...rest] = keys
  if (first === undefined) throw new Error('A list has an order')
  const absent = sql`${first.value} is null`
  const present = sql`${first.value} is not null`
  if (!hasPosition) {
    if (!first.isNullable) return [sql`true`]
    return first.nullsLast ? [present, absent] : [absent, present]
  }
  if (first.isAtNull) {
    const behind = sql`${absent} and (${isBehind(rest, idAscends)})`
    return first.nullsLast ? [behind] : [behind, present]
  }
  const operator = sign(first.ascends)
  const behind =
    rest.length === 0
      ? sql`(${first.value}, ${itemId}) ${operator} (${first.at}, ${atId})`
      : sql`${first.value} ${operator}= ${first.at} and (${isBehind(keys, idAscends)})`
  return first.isNullable && first.nullsLast ? [behind, absent] : [behind]
}

const sign = (ascends: boolean): SQL => sql.raw(ascends ? '>' : '<')

/** Whether `item` comes behind the position by these keys, and then by the id. */
const isBehind = (keys: readonly Key[], idAscends: boolean): SQL => {
  const [key, ...rest] = keys
  if (key === undefined) return sql`${itemId} ${sign(idAscends)} ${atId}`
  const { value, at, isAtNull, nullsLast, isNullable, ascends } = key
  const then = isBehind(rest, idAscends)
  if (isAtNull) {
    const same = sql`${value} is null and (${then})`
    return nullsLast ? same : sql`${value} is not null or ${same}`
  }
  const behind = sql`${value} ${sign(ascends)} ${at} or ${value} = ${at} and (${then})`
  return isNullable && nullsLast ? sql`${behind} or ${value} is null` : behind
}
