import { rangeOperators } from '../../domain/shared/dates.ts'
import { escapeLike } from '../../domain/shared/text.ts'
import { type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { parameter, type ParameterType, type ParameterTypes } from './parameters.ts'

/** A condition on the row `item` of a list, with its parameter values. */
export interface Condition {
  readonly sql: SQL
  readonly values: Readonly<Record<string, unknown>>
  /** Set if the condition is too expensive for every row of a list. A request then examines a bounded number of rows. */
  readonly search?: TextSearch
  /** Whether one plan is as good as any for all of its values, as for an equality. A range can hold for few rows, or for all. */
  readonly plansAlike?: boolean
}

export interface TextSearch {
  /** Worst-case octets compared per row: a float8 expression on the row that does not read the text itself. */
  readonly cost: SQL
  /** An indexable condition that every matching row meets. */
  readonly index?: SQL
}

/** Binds a value from the request as a parameter. */
export type Bind = <Type extends ParameterType>(type: Type, value: ParameterTypes[Type]) => SQL

/** Builds SQL with parameters named `<prefix>_0`, `<prefix>_1`, … */
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

/** Whether a column has one of these values. A single value becomes an equality, so that an index still provides the order. */
export const isOneOf = (
  column: SQLWrapper,
  type: 'text' | 'uuid',
  values: readonly string[],
  bind: Bind,
): SQL => {
  const [only, ...others] = values
  return only !== undefined && others.length === 0
    ? sql`${column} = ${bind(type, only)}`
    : sql`${column} = any(${bind(`${type}[]`, values)})`
}

/** Whether a project id is one of these; `none` matches null. */
export const isOfProjects = (column: SQLWrapper, projects: readonly string[]): Condition =>
  bindValues('project', (bind) => {
    const ids = projects.filter((id) => id !== 'none')
    const isOfOne = isOneOf(column, 'uuid', ids, bind)
    return {
      sql: ids.length === projects.length ? isOfOne : sql`(${column} is null or ${isOfOne})`,
      plansAlike: true,
    }
  })

/** Marks a condition as not indexable, so that a request examines a bounded number of rows. */
export const searched = (condition: Condition): Condition => ({
  ...condition,
  search: { cost: sql`1000::float8` },
})

/** Whether a folded text contains another. No text contains an empty one: a combining mark alone folds to nothing. */
export const contains = (text: SQLWrapper, part: string, bind: Bind): SQL =>
  part === '' ? sql`false` : sql`${text} like ${bind('text', `%${escapeLike(part)}%`)} escape '\\'`

/** Whether a folded name contains a folded text. The index has bigrams, so it cannot find a single character. */
export const nameContains = (name: SQLWrapper, part: string): Condition =>
  bindValues('part', (bind) => {
    const index = sql`bigrams_of(${name}) @> bigrams_of(${bind('text', part)})`
    const hasBigrams = Array.from(part).length > 1
    return {
      sql: contains(name, part, bind),
      search: { cost: sql`1000::float8`, ...(hasBigrams && { index }) },
      plansAlike: true,
    }
  })

/** A list filter: builds a condition from its value. */
export type Filter<Value> = (value: Value, bind: Bind) => SQL

export const filterBy =
  <T extends ParameterType>(type: T, holds: (value: SQL) => SQL): Filter<ParameterTypes[T]> =>
  (value, bind) =>
    holds(bind(type, value))

export const filterOneOf =
  (type: 'text' | 'uuid', column: SQLWrapper): Filter<readonly string[]> =>
  (values, bind) =>
    isOneOf(column, type, values, bind)

/** The filters `created_after` and `created_before` of a list. */
export const createdTimeFilters = (createdAt: SQLWrapper) => {
  const compare = (end: keyof typeof rangeOperators) =>
    filterBy('instant', (value) => sql`${createdAt} ${sql.raw(rangeOperators[end])} ${value}`)
  return { created_after: compare('after'), created_before: compare('before') }
}

type FilterValues<F> = { readonly [Name in keyof F]?: F[Name] extends Filter<infer Value> ? Value : never }

/** Conditions for the filters that have a value. */
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
export const listOf = (items: readonly SQLWrapper[]): SQL => sql.join([...items], sql`, `)
/** A literal instead of a parameter, so that the planner knows its value. */
export const constant = (value: number | boolean): SQL => sql.raw(String(value))
