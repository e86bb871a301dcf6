import {
  type Comparison,
  isIdField,
  type Pattern,
  type TaskCondition,
  type TaskField,
  type TextField,
} from '../domain/task-condition.ts'
import { escapeLike, foldText } from '../domain/text.ts'
import { columnsOf } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import type { TaskRelationName } from './access/task-relations.ts'
import {
  type Bind,
  bindValues,
  type Condition,
  contains,
  isOneOf,
  type TextSearch,
} from './engine/conditions.ts'

/** A row of a list of tasks. */
const item = columnsOf<'tasks'>(sql.raw('item'))

/**
 * The conditions on the task in row `item` that a list asks for, all of which must hold. Nothing that the caller wrote gets
 * into their text.
 */
export const compileCondition = (condition: TaskCondition): readonly Condition[] =>
  conjunctsOf(condition).map((conjunct, index) =>
    bindValues(`filter_${index}`, (bind) => ({
      sql: holds(conjunct, bind),
      ...(isExpensive(conjunct) && { search: searchOf(conjunct, bind) }),
    })),
  )

/** The conditions that must all hold. */
const conjunctsOf = (condition: TaskCondition): readonly TaskCondition[] =>
  condition.kind === 'and' ? condition.operands.flatMap(conjunctsOf) : [condition]

/**
 * The relation that a condition asks of the user, such as `assignee_id = me`. The user sees these tasks for that reason, so
 * the list needs no other branch.
 */
export const relationIn = (condition: TaskCondition | null, userId: string): TaskRelationName | null => {
  const asks = (field: 'owner_id' | 'assignee_id'): boolean =>
    condition !== null &&
    conjunctsOf(condition).some((part) => {
      if (part.kind === 'id') return part.field === field && part.operator === '=' && part.value === userId
      return part.kind === 'one_of' && part.field === field && part.values.every((id) => id === userId)
    })
  if (asks('owner_id')) return 'owner'
  return asks('assignee_id') ? 'assignee' : null
}

/** Whether it looks into texts or at the names of tags, and so is asked of a bounded number of rows. */
const isExpensive = (condition: TaskCondition): boolean => {
  if ('operands' in condition) return condition.operands.some(isExpensive)
  return condition.kind === 'not' ? isExpensive(condition.operand) : expensive.has(condition.kind)
}

const expensive = new Set<TaskCondition['kind']>(['search', 'contains', 'matches', 'tagged'])

const searchOf = (condition: TaskCondition, bind: Bind): TextSearch => {
  const query = indexQuery(condition)
  return {
    cost: costOf(condition, bind),
    ...(query !== null && { index: sql`${item.search} @@ ${bind('text', query)}::tsquery` }),
  }
}

/** The octets that it compares, at worst. */
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
    case 'carries':
    case 'has_tags':
    case 'present':
    case 'not_empty':
    case 'one_of':
    case 'id':
    case 'instant':
    case 'number':
      return sql`100::float8`
  }
}

/** A text search reads the words of a task, which take about five times the octets of the folded description. */
const wordsCost = (words: string, bind: Bind): SQL =>
  sql`octet_length(${item.description_folded}) * 20::float8 + ${bind('float8', 100 * words.split("'").length)}`

/** LIKE compares the pattern at each octet at worst; reading a compressed text costs some more. */
const comparisonCost = (text: SQL, patternLength: number, bind: Bind): SQL =>
  sql`octet_length(${text}) * ${bind('float8', patternLength + 8)}`

/**
 * A text search query that finds at least the tasks for which the condition holds, by the index on `search`; null where there
 * is none.
 */
const indexQuery = (condition: TaskCondition): string | null => {
  switch (condition.kind) {
    case 'and':
      return condition.operands.map(indexQuery).find((query) => query !== null) ?? null
    case 'or':
      return anyQuery(condition.operands.map(indexQuery))
    case 'search':
      return anyQuery([condition.index === '' ? null : condition.index, pairsQuery(condition.text)])
    case 'contains':
      return condition.field === 'title' ? pairsQuery(condition.text) : null
    case 'carries':
    case 'has_tags':
    case 'present':
    case 'not_empty':
    case 'one_of':
    case 'id':
    case 'instant':
    case 'number':
    case 'not':
    case 'tagged':
    case 'matches':
      return null
  }
}

/** Alternatives that are looked up. More of them make a search no faster. */
const maxAlternatives = 8

const anyQuery = (queries: readonly (string | null)[]): string | null => {
  const known = queries.filter((query) => query !== null)
  if (known.length < queries.length || known.length > maxAlternatives) return null
  return known.map((query) => `(${query})`).join(' | ')
}

/** Pairs of a text that are looked up. */
const maxPairs = 64

/** The titles that have the text as a part: `pair_lexemes` in routines.sql makes a lexeme of each pair of their characters. */
const pairsQuery = (text: string): string | null => {
  const characters = Array.from(text)
  const pairs = characters.slice(1).map((character, index) => `${characters[index]}${character}`)
  const lexemes = [...new Set(pairs)].slice(0, maxPairs).map((pair) => pair.replace(/['\\]/g, '$&$&'))
  return lexemes.length === 0 ? null : lexemes.map((lexeme) => `'\u0001${lexeme}'`).join(' & ')
}

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
      return sql`(${item.search} @@ ${bind('text', condition.words)}::tsquery
        or ${contains(foldedColumn('title'), condition.text, bind)})`
    case 'carries': {
      const tags = bind('uuid[]', condition.tags)
      return condition.match === 'any'
        ? sql`exists (select from task_tags link where link.task_id = item.id and link.tag_id = any(${tags}))`
        : sql`item.id = any(array(
            select task_id from task_tags where tag_id = any(${tags})
            group by task_id having count(*) = ${bind('int', condition.tags.length)}))`
    }
    case 'has_tags':
      return sql`exists (select from task_tags link where link.task_id = item.id)`
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
      return isOneOf(
        column(condition.field),
        isIdField(condition.field) ? 'uuid' : 'text',
        condition.values,
        bind,
      )
    case 'id':
      return compare(condition, bind('uuid', condition.value))
    case 'instant':
      return compare(condition, bind('instant', condition.value))
    case 'number':
      return compare(condition, bind('float8', condition.value))
  }
}

/** The fields of a task have the names of their columns. */
const column = (field: TaskField): SQL => item[field]

/** Texts are kept folded. */
const foldedColumn = (field: TextField): SQL => item[`${field}_folded`]

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
