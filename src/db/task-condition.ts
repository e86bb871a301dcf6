import type { Comparison, Pattern, TaskCondition, TaskField } from '../domain/task-condition.ts'
import { escapeLike, foldText } from '../domain/text.ts'
import { type SQL, sql } from './drizzle.ts'
import { type Bind, type Condition, inRange, isOneOf } from './list.ts'
import { hasPairs, isPartOf, patternOf } from './search.ts'
import { parameter } from './statement.ts'

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
  return {
    shape,
    sql: holds(condition, bind),
    values,
    isSearch: isSearch(condition),
  }
}

/** Whether it looks into texts. */
const isSearch = (condition: TaskCondition): boolean =>
  'operands' in condition ? condition.operands.some(isSearch) : searches.has(condition.kind)

const searches = new Set(['search', 'contains', 'matches'])

/** What makes the text: all but what is bound, of which a text counts by whether it has pairs, and values by whether they are one. */
const shapeOf = (condition: TaskCondition): string =>
  JSON.stringify(condition, (name, value: unknown) => {
    if (name === 'text' && typeof value === 'string') return hasPairs(value)
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
      return titleContains(
        condition.text,
        bind,
        sql`item.search @@ ${bind('text', condition.words)}::tsquery`,
      )
    case 'tagged':
      return sql`exists (
        select from task_tags link join tags tag on tag.id = link.tag_id
        where link.task_id = item.id and ${matches(sql`tag.name_folded`, foldPattern(condition.pattern), bind)})`
    case 'present':
      return sql`${column(condition.field)} is not null`
    case 'not_empty':
      return sql`${column(condition.field)} <> ''`
    case 'contains':
      return condition.field === 'title'
        ? titleContains(condition.text, bind)
        : sql`item.description_folded like ${bind('text', patternOf(condition.text))} escape '\\'`
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

/** A title is kept folded, and has an index. So has what else may be found. */
const titleContains = (text: string, bind: Bind, found?: SQL): SQL =>
  isPartOf(sql`item.title_folded`, text, bind('text', text), bind('text', patternOf(text)), found)

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
