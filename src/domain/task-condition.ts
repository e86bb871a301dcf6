import { isInstant } from './dates.ts'
import { parseSearch } from './search.ts'
import { priorityRanks, statusRanks } from './task-ranks.ts'
import { foldSearch } from './text.ts'
import { type Expression, FilterError, type Operator, parseFilter, type Word } from './filter-expression.ts'

/** The type of a field, which determines its operators and values. */
type FieldType = { readonly type: 'text' } | OtherFieldType

type OtherFieldType =
  | { readonly type: 'id' | 'user' | 'instant' | 'number' }
  | { readonly type: 'choice' | 'rank'; readonly values: readonly string[] }

/** The filterable fields with at most one value, named as in the contract. */
const fields = {
  id: { type: 'id' },
  title: { type: 'text' },
  description: { type: 'text' },
  status: { type: 'choice', values: statusRanks },
  priority: { type: 'rank', values: priorityRanks },
  start_at: { type: 'instant' },
  due_at: { type: 'instant' },
  completed_at: { type: 'instant' },
  owner_id: { type: 'user' },
  assignee_id: { type: 'user' },
  attachment_count: { type: 'number' },
  version: { type: 'number' },
  created_at: { type: 'instant' },
  updated_at: { type: 'instant' },
} as const satisfies Readonly<Record<string, FieldType>>

export type TaskField = keyof typeof fields
export type TextField = 'title' | 'description'

const isTextField = (field: TaskField): field is TextField => fields[field].type === 'text'

export const isIdField = (field: TaskField): boolean => ['id', 'user'].includes(fields[field].type)

export type Comparison = Exclude<Operator, ':'>

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
export type TaskCondition =
  | { readonly kind: 'and' | 'or'; readonly operands: readonly TaskCondition[] }
  | { readonly kind: 'not'; readonly operand: TaskCondition }
  /** The title or description contains the words, or the title contains the text. See `Search`. */
  | { readonly kind: 'search'; readonly words: string; readonly index: string; readonly text: string }
  /** Has any, or all, of these tags. */
  | { readonly kind: 'carries'; readonly match: 'any' | 'all'; readonly tags: readonly string[] }
  | { readonly kind: 'has_tags' }
  /** Has a tag whose name matches, ignoring case. */
  | { readonly kind: 'tagged'; readonly pattern: Pattern }
  | { readonly kind: 'present'; readonly field: TaskField }
  | { readonly kind: 'not_empty'; readonly field: TextField }
  /** Contains this text, which is folded. */
  | { readonly kind: 'contains'; readonly field: TextField; readonly text: string }
  | { readonly kind: 'matches'; readonly field: TextField; readonly pattern: Pattern }
  | { readonly kind: 'one_of'; readonly field: TaskField; readonly values: readonly string[] }
  | (CompareWith<'id' | 'instant', string> | CompareWith<'number', number>)

interface CompareWith<Kind, Value> {
  readonly kind: Kind
  readonly field: TaskField
  readonly operator: Comparison
  readonly value: Value
}

/** The values of `now` and `me` in a filter. */
export interface FilterContext {
  readonly now: Date
  /** The value of `me`. */
  readonly userId: string
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

const readExpression = (expression: Expression, context: FilterContext): TaskCondition => {
  switch (expression.kind) {
    case 'and':
    case 'or':
      return {
        kind: expression.kind,
        operands: expression.operands.map((operand) => readExpression(operand, context)),
      }
    case 'not':
      return not(readExpression(expression.operand, context))
    case 'word':
      return readSearch(expression.word)
    case 'comparison':
      return readComparison(expression, context)
  }
}

const not = (operand: TaskCondition): TaskCondition => ({ kind: 'not', operand })

type ComparisonExpression = Extract<Expression, { kind: 'comparison' }>

const isField = (name: string): name is TaskField => Object.hasOwn(fields, name)

const readComparison = (comparison: ComparisonExpression, context: FilterContext): TaskCondition => {
  const { field: name, operator, value } = comparison
  const { text: field } = withoutWildcards(name, expectedField)
  if (field === 'tags') return readTagged(comparison)
  if (!isField(field)) throw unexpected(name, expectedField)
  if (isTextField(field)) return readText(field, comparison)
  const definition: OtherFieldType = fields[field]
  if (operator === ':' && isWildcard(value)) return { kind: 'present', field }
  switch (definition.type) {
    case 'choice':
    case 'rank':
      return { kind: 'one_of', field, values: readChoices(definition, comparison) }
    case 'id':
    case 'user': {
      const own = definition.type === 'user' ? { me: context.userId } : {}
      return { kind: 'id', field, operator: readEquality(comparison), value: readId(value, own) }
    }
    case 'instant':
      return {
        kind: 'instant',
        field,
        operator: readOrder(comparison),
        value: readInstant(value, context.now),
      }
    case 'number':
      return { kind: 'number', field, operator: readOrder(comparison), value: readNumber(value) }
  }
}

const oneOf = (names: readonly string[]): string => `one of ${names.join(', ')}`

const expectedField = oneOf([...Object.keys(fields), 'tags'])

const readTagged = ({ operator, at, value }: ComparisonExpression): TaskCondition => {
  if (operator !== ':') throw new FilterError(at, operator, ':, because a task can have several tags')
  return { kind: 'tagged', pattern: patternOf(value) }
}

const readText = (field: TextField, comparison: ComparisonExpression): TaskCondition => {
  const { operator, value } = comparison
  if (operator === ':' && isWildcard(value)) return { kind: 'not_empty', field }
  if (operator === ':') return contains(field, withoutWildcards(value, 'text without *').text)
  const matches: TaskCondition = { kind: 'matches', field, pattern: patternOf(value) }
  return readEquality(comparison) === '=' ? matches : not(matches)
}

const contains = (field: TextField, text: string): TaskCondition => ({
  kind: 'contains',
  field,
  text: foldSearch(text),
})

/** The values for which the comparison is true. */
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

/** The operator. On a field with a single value, `:` means `=`. */
const readOrder = ({ operator }: ComparisonExpression): Comparison => (operator === ':' ? '=' : operator)

const readEquality = (comparison: ComparisonExpression): '=' | '!=' => {
  const operator = readOrder(comparison)
  if (operator === '=' || operator === '!=') return operator
  throw new FilterError(comparison.at, operator, '=, != or :, because this field has no order')
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const readId = (word: Word, { me }: { readonly me?: string }): string => {
  const expected = me === undefined ? 'a UUID' : 'a UUID or me'
  const { text } = withoutWildcards(word, expected)
  if (text === 'me' && me !== undefined) return me
  if (uuid.test(text)) return text.toLowerCase()
  throw unexpected(word, expected)
}

const expectedTime = 'a time such as 2026-11-02T09:00:00Z, 2026-11-02, now or now+7d'
const relative = /^now(?:([+-]\d{1,9}(?:\.\d{1,9})?)([smhdw]))?$/
const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }

const readInstant = (word: Word, now: Date): string => {
  const { text } = withoutWildcards(word, expectedTime)
  const [matched, amount = '0', unit = 's'] = relative.exec(text) ?? []
  const instant =
    matched === undefined
      ? text.replace(/^\d{4}-\d\d-\d\d$/, '$&T00:00:00Z')
      : instantText(now.getTime() + Number(amount) * (units[unit] ?? 0) * 1_000)
  if (isInstant(instant)) return new Date(instant.toUpperCase()).toISOString()
  throw unexpected(word, expectedTime)
}

/** Empty if the time is out of range. */
const instantText = (milliseconds: number): string => {
  const date = new Date(milliseconds)
  return Number.isNaN(date.getTime()) ? '' : date.toISOString()
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

const readSearch = (word: Word): TaskCondition => {
  const { text, isQuoted } = withoutWildcards(word, 'a word without *')
  if (!isQuoted && /^(and|or|not)$/i.test(text)) throw unexpected(word, `${text.toUpperCase()} in upper case`)
  // A + that is not percent-encoded arrives as a space.
  if (!isQuoted && /^\+?\d+(\.\d+)?[smhdw]$/.test(text))
    throw unexpected(word, 'now+7d without spaces; in a URL, encode + as %2B')
  if (text === '') throw unexpected(word, 'a word to search for')
  const { words, index } = parseSearch(isQuoted ? `"${text.replaceAll('"', ' ')}"` : text)
  return words === '' ? contains('title', text) : { kind: 'search', words, index, text: foldSearch(text) }
}

const patternOf = ({ text, hasOpenStart, hasOpenEnd }: Word): Pattern => ({ text, hasOpenStart, hasOpenEnd })

const isWildcard = ({ text, hasOpenStart }: Word): boolean => text === '' && hasOpenStart

const withoutWildcards = (word: Word, expected: string): Word => {
  if (word.hasOpenStart || word.hasOpenEnd) throw unexpected(word, expected)
  return word
}

const unexpected = ({ at, image }: Word, expected: string): FilterError =>
  new FilterError(at, image, expected)
