import { escapeLike } from '../../domain/text.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { parameter, type ParameterType, type ParameterTypes } from './parameters.ts'

/** A condition on the row `item` of a list, with the values of its parameters. */
export interface Condition {
  readonly sql: SQL
  readonly values: Readonly<Record<string, unknown>>
  /** Present when the condition is too expensive for every row of a list: a request then examines a bounded number. */
  readonly search?: TextSearch
}

export interface TextSearch {
  /** The octets that the condition compares at worst, as a float8 expression on the row that reads no text. */
  readonly cost: SQL
  /** Holds for every row that passes the condition; an index finds these rows. */
  readonly index?: SQL
}

/** Makes a parameter of a value that the caller wrote. */
export type Bind = <Type extends ParameterType>(type: Type, value: ParameterTypes[Type]) => SQL

/** Builds with parameters that are called `<prefix>_0`, `<prefix>_1`, … */
export const bindValues = <Built extends object>(
  prefix: string,
  build: (bind: Bind) => Built,
): Built & Pick<Condition, 'values'> => {
  const values: Record<string, unknown> = {}
  const bind: Bind = (type, value) => {
    const name = `${prefix}_${Object.keys(values).length}`
    values[name] = value
    return parameter(name, type)
  }
  return { ...build(bind), values }
}

/** That a column has one of these values. A single one is an equality, behind which an index keeps its order. */
export const isOneOf = (column: SQL, type: 'text' | 'uuid', values: readonly string[], bind: Bind): SQL => {
  const [only, ...others] = values
  return only !== undefined && others.length === 0
    ? sql`${column} = ${bind(type, only)}`
    : sql`${column} = any(${bind(`${type}[]`, values)})`
}

/** That a folded text contains another. */
export const contains = (text: SQL, part: string, bind: Bind): SQL =>
  sql`${text} like ${bind('text', `%${escapeLike(part)}%`)} escape '\\'`

/** The condition that a folded name contains a folded text. A text of one character has no pairs to look up. */
export const nameContains = (name: SQL, part: string): Condition =>
  bindValues('part', (bind) => {
    const index = sql`pairs_of(${name}) @> pairs_of(${bind('text', part)})`
    const hasPairs = Array.from(part).length > 1
    return {
      sql: contains(name, part, bind),
      search: { cost: sql`1000::float8`, ...(hasPairs && { index }) },
    }
  })

/** A filter of a list: how its value becomes a condition. */
export type Filter<Value> = (value: Value, bind: Bind) => SQL

export const filterBy =
  <T extends ParameterType>(type: T, holds: (value: SQL) => SQL): Filter<ParameterTypes[T]> =>
  (value, bind) =>
    holds(bind(type, value))

export const filterOneOf =
  (type: 'text' | 'uuid', column: SQL): Filter<readonly string[]> =>
  (values, bind) =>
    isOneOf(column, type, values, bind)

type FilterValues<F> = { readonly [Name in keyof F]?: F[Name] extends Filter<infer Value> ? Value : never }

/** The conditions of the filters that have a value. */
export const conditionsOf = <F extends Readonly<Record<string, Filter<never>>>>(
  filters: F,
  values: FilterValues<F>,
): Condition[] =>
  Object.entries(filters).flatMap(([name, filter]) => {
    const value = values[name]
    if (value === undefined) return []
    return [bindValues(`by_${name}`, (bind) => ({ sql: filter(value as never, bind) }))]
  })

export const allOf = (conditions: readonly SQL[]): SQL => sql.join([...conditions], sql` and `)
export const unionAll = (queries: readonly SQL[]): SQL => sql.join([...queries], sql` union all `)
export const listOf = (items: readonly SQL[]): SQL => sql.join([...items], sql`, `)
/** A constant, which the planner knows. */
export const constant = (value: number | boolean): SQL => sql.raw(String(value))
