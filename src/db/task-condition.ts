import type { Comparison, Pattern, TaskCondition, TaskField } from '../domain/task-condition.ts'
import { escapeLike, foldText } from '../domain/text.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { type Bind, type Condition, inRange, isOneOf } from './lists/list.ts'
import {
  comparisonCost,
  contains,
  eitherIndex,
  pairsIndex,
  searchOf,
  wordsCost,
  wordsIndex,
} from './lists/search.ts'
import { parameter } from './engine/parameters.ts'

/**
 * The conditions on the task in row `item` that a filter asks for, all of which must hold. Nothing that the caller wrote gets
 * into their text.
 */
export const compileCondition = (condition: TaskCondition): readonly Condition[] =>
  conjunctsOf(condition).map((conjunct, index) => compileConjunct(conjunct, `filter_${index}`))

/** The conditions that must all hold. */
export const conjunctsOf = (condition: TaskCondition): readonly TaskCondition[] =>
  condition.kind === 'and' ? condition.operands.flatMap(conjunctsOf) : [condition]

const compileConjunct = (condition: TaskCondition, prefix: string): Condition => {
  const values: Record<string, unknown> = {}
  const bind: Bind = (type, value) => {
    const name = `${prefix}_${Object.keys(values).length}`
    values[name] = value
    return parameter(name, type)
  }
  const shape = shapeOf(condition)
  // Every instant has an index with its order.
  if (condition.kind === 'instant' && condition.operator !== '!=') {
    const { field, operator } = condition
    const range = { field, operator, value: bind('instant', condition.value) }
    return { shape, sql: inRange(range), values, range }
  }
  const sql = holds(condition, bind)
  return isSearched(condition)
    ? { shape, sql, values, search: searchOf(costOf(condition, bind), indexOf(condition, bind)) }
    : { shape, sql, values }
}

/** Whether it is asked of a bounded number of rows: what looks into texts, and what is not all of one comparison. */
const isSearched = ({ kind }: TaskCondition): boolean => searched.has(kind)

const searched = new Set(['and', 'or', 'not', 'search', 'contains', 'matches', 'tagged'])

/** The texts that it reads, at worst. */
const costOf = (condition: TaskCondition, bind: Bind): SQL => {
  switch (condition.kind) {
    case 'and':
    case 'or':
      return sql`(${sql.join(
        condition.operands.map((operand) => costOf(operand, bind)),
        sql` + `,
      )})`
    case 'not':
      return costOf(condition.operand, bind)
    case 'search':
      return wordsCost(condition.words, bind)
    case 'contains':
      return comparisonCost(foldedColumn(condition.field), condition.text.length, bind)
    case 'matches':
      return comparisonCost(column(condition.field), condition.pattern.text.length, bind)
    case 'tagged':
      return sql`1000::float8`
    case 'present':
    case 'not_empty':
    case 'one_of':
    case 'id':
    case 'instant':
    case 'number':
      return sql`100::float8`
  }
}

/** What an index finds that includes all tasks for which it holds. */
const indexOf = (condition: TaskCondition, bind: Bind): SQL | undefined => {
  switch (condition.kind) {
    case 'and':
      return condition.operands.map((operand) => indexOf(operand, bind)).find((index) => index !== undefined)
    case 'or':
      return eitherIndex(condition.operands.map((operand) => indexOf(operand, bind)))
    case 'search':
      return eitherIndex([
        wordsIndex(condition.index, bind),
        pairsIndex(foldedColumn('title'), condition.text, bind),
      ])
    case 'contains':
      return condition.field === 'title' ? pairsIndex(foldedColumn('title'), condition.text, bind) : undefined
    case 'not':
    case 'tagged':
    case 'matches':
    case 'present':
    case 'not_empty':
    case 'one_of':
    case 'id':
    case 'instant':
    case 'number':
      return undefined
  }
}

/** What makes the SQL: all but what is bound, of which a text counts by its indexes, and values by whether they are one. */
const shapeOf = (condition: TaskCondition): string =>
  JSON.stringify(condition, (name, value: unknown) => {
    if (name === 'text' && typeof value === 'string') return Math.min(Array.from(value).length, 2)
    if (name === 'index') return value === ''
    if (name === 'values' && Array.isArray(value)) return value.length === 1
    return boundNames.has(name) ? undefined : value
  })

const boundNames = new Set(['words', 'value'])

/**
 * A comparison with a value that is missing is null, which counts as false everywhere but under `not`: there it is made
 * false.
 */
const holds = (condition: TaskCondition, bind: Bind): SQL => {
  switch (condition.kind) {
    case 'and':
    case 'or': {
      const operands = condition.operands.map((operand) => holds(operand, bind))
      return sql`(${sql.join(operands, sql.raw(` ${condition.kind} `))})`
    }
    case 'not':
      return sql`not coalesce(${holds(condition.operand, bind)}, false)`
    case 'search':
      return sql`(item.search @@ ${bind('text', condition.words)}::tsquery
        or ${contains(foldedColumn('title'), condition.text, bind)})`
    case 'tagged':
      return sql`exists (
        select from task_tags link join tags tag on tag.id = link.tag_id and tag.deleted_at is null
        where link.task_id = item.id and ${matches(sql`tag.name_folded`, foldPattern(condition.pattern), bind)})`
    case 'present':
      return sql`${column(condition.field)} is not null`
    case 'not_empty':
      return sql`${column(condition.field)} <> ''`
    case 'contains':
      return contains(foldedColumn(condition.field), condition.text, bind)
    case 'matches':
      return matches(column(condition.field), condition.pattern, bind)
    case 'one_of':
      return isOneOf(column(condition.field), 'text', condition.values, bind)
    case 'id':
      return compare(condition, bind('uuid', condition.value))
    case 'instant':
      return compare(condition, bind('instant', condition.value))
    case 'number':
      return compare(condition, bind('float8', condition.value))
  }
}

/** The fields of a task have the names of their columns. */
const column = (field: TaskField): SQL => sql.raw(`item.${field}`)

/** Texts are kept folded. */
const foldedColumn = (field: TaskField): SQL => sql.raw(`item.${field}_folded`)

const compare = (
  { field, operator }: { readonly field: TaskField; readonly operator: Comparison },
  value: SQL,
): SQL => sql`${column(field)} ${operators[operator]} ${value}`

const operators: Readonly<Record<Comparison, SQL>> = {
  '=': sql`=`,
  '!=': sql`<>`,
  '<': sql`<`,
  '<=': sql`<=`,
  '>': sql`>`,
  '>=': sql`>=`,
}

const matches = (value: SQL, { text, hasOpenStart, hasOpenEnd }: Pattern, bind: Bind): SQL => {
  if (!hasOpenStart && !hasOpenEnd) return sql`${value} = ${bind('text', text)}`
  const pattern = `${hasOpenStart ? '%' : ''}${escapeLike(text)}${hasOpenEnd ? '%' : ''}`
  return sql`${value} like ${bind('text', pattern)} escape '\\'`
}

const foldPattern = (pattern: Pattern): Pattern => ({ ...pattern, text: foldText(pattern.text) })
