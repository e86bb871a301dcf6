import { closestMatch } from 'leven'
import { canonicalTimeOrDay, isDay, timeLimits } from '../shared/dates.ts'
import { meansMissing } from '../shared/foreign-operators.ts'
import { parseSearch } from '../shared/search.ts'
import { priorityRanks, statusRanks } from './ranks.ts'
import { foldSearch } from '../shared/text.ts'
import { dayAfter, dayAt, instantOf, lastInstantOf } from '../shared/time-zones.ts'
import {
  type Combined,
  type Comparison,
  type ComparisonExpression,
  type Expression,
  FilterError,
  isWildcard,
  parseFilter,
  readEquality,
  readOrder,
  resolveLeaves,
  unexpected,
  withoutWildcards,
  type Word,
} from '../shared/filter-expression.ts'
import {
  type IntegrationCondition,
  integrationFieldNames,
  readIntegration,
} from '../shared/integration-condition.ts'

/** The type of a field, which determines its operators and values. */
type FieldType = { readonly type: 'text' | 'date' | 'instant' } | OtherFieldType

type OtherFieldType =
  | { readonly type: 'id' | 'user' | 'day' | 'number' }
  | { readonly type: 'choice' | 'rank'; readonly values: readonly string[] }

/**
 * The filterable fields with at most one value, named as in the contract. `start` and `due` are the dates of either kind: a
 * time (`due_at`) or an all-day date (`due_on`).
 */
const fields = {
  id: { type: 'id' },
  title: { type: 'text' },
  description: { type: 'text' },
  status: { type: 'choice', values: statusRanks },
  priority: { type: 'rank', values: priorityRanks },
  start: { type: 'date' },
  start_at: { type: 'instant' },
  start_on: { type: 'day' },
  due: { type: 'date' },
  due_at: { type: 'instant' },
  due_on: { type: 'day' },
  completed_at: { type: 'instant' },
  owner_id: { type: 'user' },
  assignee_id: { type: 'user' },
  project_id: { type: 'id' },
  section_id: { type: 'id' },
  parent_id: { type: 'id' },
  series_id: { type: 'id' },
  attachment_count: { type: 'number' },
  subtask_count: { type: 'number' },
  open_subtask_count: { type: 'number' },
  comment_count: { type: 'number' },
  version: { type: 'number' },
  created_at: { type: 'instant' },
  updated_at: { type: 'instant' },
} as const satisfies Readonly<Record<string, FieldType>>

export type TaskField = keyof typeof fields
export type TextField = 'title' | 'description'
export type DateField = 'start' | 'due'
/** A field that is a time. */
export type InstantField = {
  [Field in TaskField]: (typeof fields)[Field]['type'] extends 'instant' ? Field : never
}[TaskField]

const isTextField = (field: TaskField): field is TextField => fields[field].type === 'text'
const isDateField = (field: TaskField): field is DateField => fields[field].type === 'date'
const isInstantField = (field: TaskField): field is InstantField => fields[field].type === 'instant'

export const isIdField = (field: TaskField): boolean => ['id', 'user'].includes(fields[field].type)

/** Text to match. An open start or end allows any text before or after it. */
export interface Pattern {
  readonly text: string
  readonly hasOpenStart: boolean
  readonly hasOpenEnd: boolean
}

/**
 * A condition on tasks, from `filter` or from another query parameter. Names and values are valid; `now` and `me` are
 * resolved.
 */
export type TaskCondition = Combined<TaskLeaf | IntegrationCondition>

type TaskLeaf =
  /** The title or description contains the words, or the title contains the text. See `Search`. */
  | { readonly kind: 'search'; readonly words: string; readonly index: string; readonly text: string }
  /** Has any, or all, of these tags. */
  | { readonly kind: 'tagged_with'; readonly match: 'any' | 'all'; readonly tags: readonly string[] }
  | { readonly kind: 'has_tags' }
  | { readonly kind: 'blocked' }
  /** Has a tag whose name matches the pattern, which is folded. */
  | { readonly kind: 'tagged'; readonly pattern: Pattern }
  | { readonly kind: 'present'; readonly field: TaskField }
  | { readonly kind: 'not_empty'; readonly field: TextField }
  /** Contains this text, which is folded. */
  | { readonly kind: 'contains'; readonly field: TextField; readonly text: string }
  | { readonly kind: 'matches'; readonly field: TextField; readonly pattern: Pattern }
  | { readonly kind: 'one_of'; readonly field: TaskField; readonly values: readonly string[] }
  | (CompareWith<'id' | 'instant' | 'day', string> | CompareWith<'number', number>)
  | DateCondition

interface CompareWith<Kind, Value> {
  readonly kind: Kind
  readonly field: TaskField
  readonly operator: Comparison
  readonly value: Value
}

/**
 * The start or the due date is before, or after, a point in time. A time is compared with `value`, an all-day date with `day`:
 * earlier days are before the point, `day` and later ones after it. `day` can be `infinity` or `-infinity`.
 */
export interface DateCondition {
  readonly kind: 'date'
  readonly field: DateField
  readonly operator: '<' | '<=' | '>' | '>='
  readonly value: string
  readonly day: string
}

/** The context in which the values of a filter are resolved. */
export interface FilterContext {
  readonly now: Date
  /** The value of `me`. */
  readonly userId: string
  /** The time zone of days and all-day dates. */
  readonly timeZone: string
}

/**
 * Parses a filter of tasks; null if it is empty.
 *
 * @throws FilterError
 */
export const readTaskCondition = (source: string, context: FilterContext): TaskCondition | null => {
  const expression = parseFilter(source)
  return expression === null ? null : readExpression(expression, context)
}

const readExpression = (expression: Expression, context: FilterContext): TaskCondition =>
  resolveLeaves(expression, (leaf) =>
    leaf.kind === 'word' ? readSearch(leaf.word) : readComparison(leaf, context),
  )

const not = (operand: TaskCondition): TaskCondition => ({ kind: 'not', operand })

const readComparison = (comparison: ComparisonExpression, context: FilterContext): TaskCondition => {
  const integration = readIntegration(comparison)
  if (integration !== null) return integration
  const { field: name, operator, value } = comparison
  const field = readFieldName(name)
  if (!value.isQuoted && meansMissing(value.text)) throw unexpected(value, missingValue(comparison, field))
  if (field === 'tags') return readTagged(comparison)
  if (field === 'is_blocked') return readBlocked(comparison)
  if (isTextField(field)) return readText(field, comparison)
  if (operator === ':' && isWildcard(value)) return { kind: 'present', field }
  if (isDateField(field) || isInstantField(field))
    return timeCondition(field, readOrder(comparison), readTime(value, context), context)
  const definition: OtherFieldType = fields[field]
  switch (definition.type) {
    case 'choice':
    case 'rank':
      return { kind: 'one_of', field, values: readChoices(definition, comparison) }
    case 'id':
    case 'user': {
      const own = definition.type === 'user' ? { me: context.userId } : {}
      return { kind: 'id', field, operator: readEquality(comparison), value: readId(value, own) }
    }
    case 'day':
      return { kind: 'day', field, operator: readOrder(comparison), value: readDay(value, context) }
    case 'number':
      return { kind: 'number', field, operator: readOrder(comparison), value: readNumber(value) }
  }
}

const oneOf = (names: readonly string[]): string => `one of ${names.join(', ')}`

/** Parses `is_blocked`: whether an open task blocks the task. */
const readBlocked = (comparison: ComparisonExpression): TaskCondition => {
  const expected = 'true or false'
  const { text } = withoutWildcards(comparison.value, expected)
  if (text !== 'true' && text !== 'false') throw unexpected(comparison.value, expected)
  const isBlocked = (readEquality(comparison) === '=') === (text === 'true')
  return isBlocked ? { kind: 'blocked' } : not({ kind: 'blocked' })
}

type FieldName = TaskField | 'is_blocked' | 'tags'

const isFieldName = (name: string): name is FieldName => ownNames.includes(name)
const ownNames: readonly string[] = [
  ...Object.keys(fields),
  ...(['is_blocked', 'tags'] satisfies FieldName[]),
]
/** What `filter` compares. */
export const fieldNames: readonly string[] = [...ownNames, ...integrationFieldNames]

const readFieldName = (word: Word): FieldName => {
  const { text, hasOpenStart, hasOpenEnd } = word
  if (isFieldName(text) && !hasOpenStart && !hasOpenEnd) return text
  const nearest = nearestFieldName(text.toLowerCase())
  throw unexpected(word, nearest === undefined ? oneOf(fieldNames) : `${nearest}, or ${oneOf(fieldNames)}`)
}

/** The field that an unknown name probably means. */
const nearestFieldName = (name: string): string | undefined =>
  name.length < 3
    ? undefined
    : (fieldNames.find((field) => field.startsWith(name)) ??
      closestMatch(name, fieldNames, { maxDistance: Math.floor(name.length / 3) }))

const missingValue = ({ operator }: ComparisonExpression, field: string): string =>
  `${operator === '!=' ? '' : 'NOT '}${field}:*, or a value in quotes`

const readTagged = ({ operator, at, value }: ComparisonExpression): TaskCondition => {
  if (operator !== ':') throw new FilterError(at, operator, ':, because a task can have several tags')
  const text = isWildcard(value) ? '' : foldWord(value)
  return { kind: 'tagged', pattern: { ...patternOf(value), text } }
}

const readText = (field: TextField, comparison: ComparisonExpression): TaskCondition => {
  const { operator, value } = comparison
  if (operator === ':' && isWildcard(value)) return { kind: 'not_empty', field }
  if (operator === ':')
    return { kind: 'contains', field, text: foldWord(withoutWildcards(value, 'text without *')) }
  const matches: TaskCondition = { kind: 'matches', field, pattern: patternOf(value) }
  return readEquality(comparison) === '=' ? matches : not(matches)
}

/** Folds text to search for. Combining marks alone fold to nothing, which every text would contain. */
const foldWord = (word: Word): string => {
  const folded = foldSearch(word.text)
  if (folded === '') throw unexpected(word, 'a word to search for')
  return folded
}

/** Resolves a comparison with an enum to the values that satisfy it. */
const readChoices = (
  { type, values }: Extract<FieldType, { values: unknown }>,
  comparison: ComparisonExpression,
): readonly string[] => {
  const operator = type === 'rank' ? readOrder(comparison) : readEquality(comparison)
  const rank = values.indexOf(withoutWildcards(comparison.value, oneOf(values)).text)
  if (rank === -1) throw unexpected(comparison.value, oneOf(values))
  return values.filter((_, index) => holds[operator](index, rank))
}

const holds: Readonly<Record<Comparison, (left: number, right: number) => boolean>> = {
  '=': (left, right) => left === right,
  '!=': (left, right) => left !== right,
  '<': (left, right) => left < right,
  '<=': (left, right) => left <= right,
  '>': (left, right) => left > right,
  '>=': (left, right) => left >= right,
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const readId = (word: Word, { me }: { readonly me?: string }): string => {
  const expected = me === undefined ? 'a UUID' : 'a UUID or me'
  const { text } = withoutWildcards(word, expected)
  if (text === 'me' && me !== undefined) return me
  if (uuid.test(text)) return text.toLowerCase()
  throw unexpected(word, expected)
}

const expectedTime = `a time such as 2026-11-02T09:00:00Z, 2026-11-02, now or now+7d, ${timeLimits}`
const expectedDay = 'a date such as 2026-11-02, now or now+7d'
const relative = /^now(?:([+-]\d{1,9}(?:\.\d{1,9})?)([smhdw]))?$/
const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }

/** A time or a day, in canonical form; null if the text is neither. */
const resolveTime = (text: string, now: Date): string | null => {
  const [matched, amount = '0', unit = 's'] = relative.exec(text) ?? []
  if (matched === undefined) return canonicalTimeOrDay(text)
  return canonicalTimeOrDay(instantText(now.getTime() + Number(amount) * (units[unit] ?? 0) * 1_000))
}

/** Empty if the time is out of range. */
const instantText = (milliseconds: number): string => {
  const date = new Date(milliseconds)
  return Number.isNaN(date.getTime()) ? '' : date.toISOString()
}

/** A time or a day, in canonical form. */
const readTime = (word: Word, { now }: FilterContext): string => {
  const time = resolveTime(withoutWildcards(word, expectedTime).text, now)
  if (time === null) throw unexpected(word, expectedTime)
  return time
}

/** A day, or a time relative to `now`, which stands for the day that contains it. */
const readDay = (word: Word, { now, timeZone }: FilterContext): string => {
  const { text } = withoutWildcards(word, expectedDay)
  const time = resolveTime(text, now)
  if (time === null || (!isDay(time) && !relative.test(text))) throw unexpected(word, expectedDay)
  return isDay(time) ? time : dayAt(Date.parse(time), timeZone)
}

/**
 * Compares a date of a task with a time or a day, in canonical form.
 *
 * A day is compared by days, in the caller's time zone: `=` means on that day, `<` before it begins, `<=` before it ends. This is
 * the same for times and all-day dates, so that the lists of consecutive days have no task twice and miss none.
 *
 * For a comparison with a time, an all-day start counts as the first millisecond of its day, an all-day due date as the last one.
 */
export const timeCondition = (
  field: DateField | InstantField,
  operator: Comparison,
  timeOrDay: string,
  { timeZone }: Pick<FilterContext, 'timeZone'>,
): TaskCondition => {
  if (isInstantField(field) && !isDay(timeOrDay))
    return { kind: 'instant', field, operator, value: timeOrDay }
  const compare = (order: DateCondition['operator']): TaskCondition => {
    const isAfter = order === '<=' || order === '>'
    const value = (isAfter ? lastInstantOf : instantOf)(timeOrDay, timeZone)
    if (isInstantField(field)) return { kind: 'instant', field, operator: order, value }
    if (isDay(timeOrDay))
      return { kind: 'date', field, operator: order, value, day: isAfter ? dayAfter(timeOrDay) : timeOrDay }
    // `<=` and `>` divide the dates after the time, `<` and `>=` before it.
    const divide = Date.parse(value) + (isAfter ? 1 : 0)
    const day = field === 'due' ? dayAt(divide, timeZone) : dayAt(divide - 1, timeZone, { days: 1 })
    return { kind: 'date', field, operator: order, value, day }
  }
  switch (operator) {
    case '=':
      return { kind: 'and', operands: [compare('>='), compare('<=')] }
    case '!=':
      return { kind: 'or', operands: [compare('<'), compare('>')] }
    case '<':
    case '<=':
    case '>':
    case '>=':
      return compare(operator)
  }
}

const decimal = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/

const readNumber = (word: Word): number => {
  const { text } = withoutWildcards(word, 'a number')
  const number = Number(text)
  if (decimal.test(text) && Number.isFinite(number)) return number
  throw unexpected(word, 'a number')
}

/** The condition of the search parameter `q`. */
export const searchFor = (query: string): TaskCondition => {
  const { words, index, part } = parseSearch(query)
  return words === ''
    ? { kind: 'contains', field: 'title', text: part }
    : { kind: 'search', words, index, text: part }
}

/** Reads text to search for. Without quotes, a word could be a part of a comparison that is mistyped or of another language. */
const readSearch = (word: Word): TaskCondition => {
  if (!word.isQuoted) throw unexpected(word, insteadOfBareWord(word))
  const { text } = withoutWildcards(word, 'a word without *')
  const folded = foldWord(word)
  const { words, index } = parseSearch(`"${text.replaceAll('"', ' ')}"`)
  return words === ''
    ? { kind: 'contains', field: 'title', text: folded }
    : { kind: 'search', words, index, text: folded }
}

const insteadOfBareWord = ({ text }: Word): string => {
  // A + that is not percent-encoded arrives as a space.
  if (/^\+?\d+(\.\d+)?[smhdw]$/.test(text)) return 'now+7d without spaces; in a URL, encode + as %2B'
  const field = fieldNames.find((name) => name === text.toLowerCase())
  return field === undefined
    ? 'a comparison such as status = todo; to search for words, quote them or use q'
    : `an operator and a value after ${field}; to search for the word, quote it`
}

const patternOf = ({ text, hasOpenStart, hasOpenEnd }: Word): Pattern => ({ text, hasOpenStart, hasOpenEnd })
