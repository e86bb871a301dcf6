import type { Comparison } from '../../domain/shared/filter-expression.ts'
import {
  isIdField,
  type DateCondition,
  type DateField,
  type Pattern,
  type TaskCondition,
  type TaskField,
  type TextField,
} from '../../domain/tasks/condition.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { escapeLike } from '../../domain/shared/text.ts'
import { holdsIntegration } from '../shared/integration-condition.ts'
import { isBlocked } from '../shared/read-models.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { tags, tasks, taskTags } from '../schema/tables.ts'
import { dueOrder, endOfDay, startOfDay, startOrder } from '../schema/task-order.ts'
import type { PersonColumn } from '../access/permissions.ts'
import {
  type Bind,
  bindValues,
  type Condition,
  contains,
  isOneOf,
  type TextSearch,
} from '../statements/conditions.ts'

/** A row of a list of tasks. */
const item = aliasedTable(tasks, 'item')
const tag = aliasedTable(tags, 'tag')
const link = aliasedTable(taskTags, 'link')

/**
 * Compiles a filter into conditions on the row `item`, all of which must hold. Values from the request are always bound as
 * parameters, never part of the SQL text. A task counts as blocked if the reader can see an open task that blocks it.
 */
export const compileCondition = (condition: TaskCondition, reader: Principal): readonly Condition[] =>
  conjunctsOf(condition).map((conjunct, index) =>
    bindValues(`filter_${index}`, (bind) => ({
      sql: holds(conjunct, bind, reader),
      ...(isExpensive(conjunct) && { search: searchOf(conjunct, bind) }),
      plansAlike: !someIn(conjunct, ({ kind }) => ofFewOrMany.has(kind)),
    })),
  )

/** The operands of a conjunction, flattened. */
const conjunctsOf = (condition: TaskCondition): readonly TaskCondition[] =>
  condition.kind === 'and' ? condition.operands.flatMap(conjunctsOf) : [condition]

/** The column that a condition requires to be this user, as in `assignee_id = me`: the list then reads only its index. */
export const personIn = (condition: TaskCondition | null, userId: string): PersonColumn | null => {
  const requires = (field: PersonColumn): boolean =>
    condition !== null &&
    conjunctsOf(condition).some((part) => {
      if (part.kind === 'id') return part.field === field && part.operator === '=' && part.value === userId
      return part.kind === 'one_of' && part.field === field && part.values.every((id) => id === userId)
    })
  return (['owner_id', 'assignee_id'] as const).find(requires) ?? null
}

/** The projects that a list is restricted to, and whether it includes personal tasks. */
interface RequiredProjects {
  readonly ids: readonly string[]
  readonly hasPersonal: boolean
}

/** The projects that a condition restricts tasks to: the list then reads only their indexes. Null for no restriction. */
export const projectsIn = (condition: TaskCondition | null): RequiredProjects | null => {
  if (condition === null) return null
  if (condition.kind === 'and')
    return condition.operands.map(projectsIn).find((required) => required !== null) ?? null
  if (condition.kind === 'or') {
    const required = condition.operands.map(projectsIn).filter((one) => one !== null)
    if (required.length < condition.operands.length) return null
    return {
      ids: [...new Set(required.flatMap(({ ids }) => ids))],
      hasPersonal: required.some(({ hasPersonal }) => hasPersonal),
    }
  }
  if (condition.kind === 'not') {
    const { operand } = condition
    const isPersonal = operand.kind === 'present' && operand.field === 'project_id'
    return isPersonal ? { ids: [], hasPersonal: true } : null
  }
  if (!('field' in condition) || condition.field !== 'project_id') return null
  if (condition.kind === 'one_of') return { ids: condition.values, hasPersonal: false }
  const isOne = condition.kind === 'id' && condition.operator === '='
  return isOne ? { ids: [condition.value], hasPersonal: false } : null
}

/** The parents, or series, that a condition restricts tasks to: the list then reads only their tasks. Null for no restriction. */
export const groupsIn = (
  condition: TaskCondition | null,
  field: 'parent_id' | 'series_id',
): readonly string[] | null => {
  if (condition === null) return null
  const required = conjunctsOf(condition).map((part) => {
    if (part.kind === 'one_of' && part.field === field) return part.values
    return part.kind === 'id' && part.field === field && part.operator === '=' ? [part.value] : null
  })
  return required.find((ids) => ids !== null) ?? null
}

/** Whether a condition, or one that it consists of, is one of these. */
const someIn = (condition: TaskCondition, is: (condition: TaskCondition) => boolean): boolean => {
  if ('operands' in condition) return condition.operands.some((operand) => someIn(operand, is))
  return condition.kind === 'not' ? someIn(condition.operand, is) : is(condition)
}

/** Whether the condition searches texts or tag names, and is therefore checked on a bounded number of rows. */
const isExpensive = (condition: TaskCondition): boolean =>
  someIn(condition, ({ kind }) => expensive.has(kind))

const expensive = new Set<TaskCondition['kind']>(['search', 'contains', 'matches', 'tagged'])

/**
 * Conditions that have an index and hold for few tasks or for most, depending on the value. Of 100,000 tasks, a range of due dates that
 * few have took 513 ms with a plan for any value, and 9 ms with its own; metadata 147 and 22 ms.
 */
const ofFewOrMany = new Set<TaskCondition['kind']>([
  'instant',
  'day',
  'date',
  'number',
  'has_metadata',
  'has_key',
  'metadata',
])

const searchOf = (condition: TaskCondition, bind: Bind): TextSearch => {
  const query = indexQuery(condition)
  return {
    cost: costOf(condition, bind),
    ...(query !== null && { index: sql`${item.search} @@ ${bind('text', query)}::tsquery` }),
  }
}

/** Worst-case octets compared per row. */
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
    case 'tagged_with':
    case 'has_tags':
    case 'blocked':
    case 'present':
    case 'not_empty':
    case 'one_of':
    case 'id':
    case 'instant':
    case 'day':
    case 'date':
    case 'number':
    case 'has_metadata':
    case 'has_key':
    case 'metadata':
    case 'external':
      return sql`100::float8`
  }
}

/** A text search reads the task's tsvector, which has about five times the octets of the folded description. */
const wordsCost = (words: string, bind: Bind): SQL =>
  sql`octet_length(${item.description_folded}) * 20::float8 + ${bind('float8', 100 * words.split("'").length)}`

/** In the worst case, LIKE compares the pattern at each octet. The constant accounts for decompressing the text. */
const comparisonCost = (text: SQLWrapper, patternLength: number, bind: Bind): SQL =>
  sql`octet_length(${text}) * ${bind('float8', patternLength + 8)}`

/**
 * A tsquery for the index on `search` that finds all tasks that meet the condition, and possibly others. Null if the index
 * cannot be used.
 */
const indexQuery = (condition: TaskCondition): string | null => {
  switch (condition.kind) {
    case 'and':
      return condition.operands.map(indexQuery).find((query) => query !== null) ?? null
    case 'or':
      return anyQuery(condition.operands.map(indexQuery))
    case 'search':
      return anyQuery([condition.index === '' ? null : condition.index, bigramQuery(condition.text)])
    case 'contains':
      return condition.field === 'title' ? bigramQuery(condition.text) : null
    case 'tagged_with':
    case 'has_tags':
    case 'blocked':
    case 'present':
    case 'not_empty':
    case 'one_of':
    case 'id':
    case 'instant':
    case 'day':
    case 'date':
    case 'number':
    case 'has_metadata':
    case 'has_key':
    case 'metadata':
    case 'external':
    case 'not':
    case 'tagged':
    case 'matches':
      return null
  }
}

/** Maximum number of alternatives to look up in the index. With more, the index no longer makes a search faster. */
const maxAlternatives = 8

const anyQuery = (queries: readonly (string | null)[]): string | null => {
  const known = queries.filter((query) => query !== null)
  if (known.length < queries.length || known.length > maxAlternatives) return null
  return known.map((query) => `(${query})`).join(' | ')
}

/** Maximum number of bigrams of a text to look up in the index. */
const maxBigrams = 64

/** A tsquery for titles that contain the text. `bigram_lexemes` in routines.sql makes a lexeme of each bigram. */
const bigramQuery = (text: string): string | null => {
  const characters = Array.from(text)
  const bigrams = characters.slice(1).map((character, index) => `${characters[index]}${character}`)
  const lexemes = [...new Set(bigrams)].slice(0, maxBigrams).map((bigram) => bigram.replace(/['\\]/g, '$&$&'))
  return lexemes.length === 0 ? null : lexemes.map((lexeme) => `'\u0001${lexeme}'`).join(' & ')
}

/**
 * Compiles a condition to SQL. A comparison with a missing value is null, which counts as false except under NOT; there,
 * `coalesce` makes it false.
 */
const holds = (condition: TaskCondition, bind: Bind, reader: Principal): SQL => {
  switch (condition.kind) {
    case 'and':
    case 'or': {
      const operands = condition.operands.map((operand) => holds(operand, bind, reader))
      return sql`(${sql.join(operands, sql.raw(` ${condition.kind} `))})`
    }
    case 'not':
      return sql`not coalesce(${holds(condition.operand, bind, reader)}, false)`
    case 'search':
      return sql`(${item.search} @@ ${bind('text', condition.words)}::tsquery
        or ${contains(foldedColumn('title'), condition.text, bind)})`
    case 'tagged_with': {
      const ids = bind('uuid[]', condition.tags)
      return condition.match === 'any'
        ? sql`exists (select from task_tags link where ${link.task_id} = ${item.id} and ${link.tag_id} = any(${ids}))`
        : sql`${item.id} = any(array(
            select ${taskTags.task_id} from task_tags where ${taskTags.tag_id} = any(${ids})
            group by ${taskTags.task_id} having count(*) = ${bind('int', condition.tags.length)}))`
    }
    case 'has_tags':
      return sql`exists (select from task_tags link where ${link.task_id} = ${item.id})`
    case 'blocked': {
      const caller = bind('uuid', reader.userId)
      return isBlocked(item, { caller, is_admin: sql.raw(String(reader.role === 'admin')) })
    }
    case 'tagged':
      return sql`exists (
        select from task_tags link join tags tag on ${tag.id} = ${link.tag_id} and ${tag.deleted_at} is null
        where ${link.task_id} = ${item.id} and ${matches(tag.name_folded, condition.pattern, bind)})`
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
      return condition.field === 'due_at'
        ? compareDue(condition, bind('instant', condition.value))
        : compare(condition, bind('instant', condition.value))
    case 'day':
      return condition.field === 'due_on'
        ? compareDue(condition, endOfDay(bind('day', condition.value)))
        : compare(condition, bind('day', condition.value))
    case 'date':
      return compareDate(condition, bind)
    case 'number':
      return compare(condition, bind('float8', condition.value))
    case 'has_metadata':
    case 'has_key':
    case 'metadata':
    case 'external':
      return holdsIntegration(condition, item, bind)
  }
}

/** The columns of the start and the due date, of either kind, and the expressions to sort by them. */
export const dateFields = {
  start: {
    at: item.start_at,
    on: item.start_on,
    order: startOrder({ at: item.start_at, on: item.start_on }),
  },
  due: { at: item.due_at, on: item.due_on, order: dueOrder({ at: item.due_at, on: item.due_on }) },
} as const satisfies Record<DateField, unknown>

/** Other task fields and their columns have the same names. */
const column = (field: TaskField): SQLWrapper =>
  field === 'start' || field === 'due' ? dateFields[field].order : item[field]

/** The column with the folded text of a field. */
const foldedColumn = (field: TextField): SQLWrapper => item[`${field}_folded`]

const compare = (
  { field, operator }: { readonly field: TaskField; readonly operator: Comparison },
  value: SQL,
): SQL => sql`${column(field)} ${operators[operator]} ${value}`

/** Compares by the order by due dates, which has an index; a date of the other kind is a missing value. */
const compareDue = (
  { field, operator }: { readonly field: TaskField; readonly operator: Comparison },
  value: SQL,
): SQL => sql`(${dateFields.due.order} ${operators[operator]} ${value} and ${column(field)} is not null)`

/**
 * The index has the dates in UTC, so the condition first selects a slightly larger range, for the index, and then compares exactly.
 */
const compareDate = (condition: DateCondition, bind: Bind): SQL => {
  const { at, on, order } = dateFields[condition.field]
  const [value, day] = [bind('instant', condition.value), bind('day', condition.day)]
  const isAt = sql`${at} ${operators[condition.operator]} ${value}`
  return condition.operator === '<' || condition.operator === '<='
    ? sql`(${order} <= greatest(${value}, ${startOfDay(day)}) and (${isAt} or ${on} < ${day}))`
    : sql`(${order} >= least(${value}, ${startOfDay(day)}) and (${isAt} or ${on} >= ${day}))`
}

const operators: Readonly<Record<Comparison, SQL>> = {
  '=': sql`=`,
  '!=': sql`<>`,
  '<': sql`<`,
  '<=': sql`<=`,
  '>': sql`>`,
  '>=': sql`>=`,
}

const matches = (value: SQLWrapper, { text, hasOpenStart, hasOpenEnd }: Pattern, bind: Bind): SQL => {
  if (!hasOpenStart && !hasOpenEnd) return sql`${value} = ${bind('text', text)}`
  const pattern = `${hasOpenStart ? '%' : ''}${escapeLike(text)}${hasOpenEnd ? '%' : ''}`
  return sql`${value} like ${bind('text', pattern)} escape '\\'`
}
