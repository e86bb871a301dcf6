/**
 * Operators of other query languages (SQL, C, OData, RSQL, regular expressions), and what filters have instead. Without them, an
 * operator would be taken for a word, and the filter would match nothing.
 */

const anyOf = 'OR between comparisons, as in status = todo OR status = done'
const between = '>= and <=, as in priority >= low AND priority <= high'
const ending = '= with * at the end, as in title = "Plan*"'
const starting = '= with * at the start, as in title = "*trip"'
const quotes = '" around a text'
const contains = ': between a field and a part of its text'
const noPattern = `${contains}; there are no regular expressions`
const grouping = `${anyOf}, or parentheses`

const symbols = new Map(
  Object.entries({
    '&': 'AND',
    '&&': 'AND',
    '∧': 'AND',
    ';': 'AND',
    '|': 'OR',
    '||': 'OR',
    '∨': 'OR',
    '!': 'NOT before a comparison, or != between a field and a value',
    '¬': 'NOT',
    '==': '=',
    '===': '=',
    ':=': '=',
    '=:': '=',
    '＝': '=',
    '!==': '!=',
    '<>': '!=',
    '=!': '!=',
    '!:': '!=',
    ':!': '!=',
    ':!=': '!=',
    '≠': '!=',
    '=>': '>=',
    ':>=': '>=',
    '≥': '>=',
    '=<': '<=',
    ':<=': '<=',
    '≤': '<=',
    ':>': '>',
    '>>': '>',
    ':<': '<',
    '<<': '<',
    '~': contains,
    '=~': contains,
    '~=': contains,
    '~~': contains,
    '::': contains,
    '*=': contains,
    '≈': contains,
    '!~': 'NOT, and : between a field and a part of its text',
    '^=': ending,
    '$=': starting,
    '%': '* at the start or the end of a text',
    '?': '* at the start or the end of a text',
    ',': anyOf,
    '[': grouping,
    ']': grouping,
    '{': grouping,
    '}': grouping,
    '/': noPattern,
    '`': quotes,
    '“': quotes,
    '”': quotes,
    '„': quotes,
    '«': quotes,
    '»': quotes,
    '‘': quotes,
    '’': quotes,
  }),
)

const words = new Map(
  Object.entries({
    and: 'AND in upper case',
    or: 'OR in upper case',
    not: 'NOT in upper case',
    xor: 'AND, OR and NOT',
    eq: '=',
    equal: '=',
    equals: '=',
    is: '=, or NOT and :*, as in NOT due:*, for a missing value',
    ne: '!=',
    neq: '!=',
    isnt: '!=',
    gt: '>',
    ge: '>=',
    gte: '>=',
    lt: '<',
    le: '<=',
    lte: '<=',
    after: '>',
    before: '<',
    since: '>=',
    until: '<=',
    contains: contains,
    contain: contains,
    includes: contains,
    has: contains,
    like: contains,
    ilike: contains,
    match: contains,
    matches: contains,
    regex: noPattern,
    regexp: noPattern,
    rlike: noPattern,
    startswith: ending,
    endswith: starting,
    in: anyOf,
    any: anyOf,
    between,
    exists: ':*, as in due:*',
    isnull: 'NOT and :*, as in NOT due:*',
  }),
)

/** What to write instead of an operator of symbols. */
export const insteadOfSymbol = (symbol: string): string =>
  `${symbols.get(symbol) ?? 'one of = != < <= > >= : AND OR NOT'}; quote a text that contains it`

/** What to write instead of a word that is an operator in other languages; null for any other word. */
export const insteadOfWord = (word: string): string | null => words.get(word.toLowerCase()) ?? null

const missing = new Set(['null', 'nil', 'undefined'])

/** Whether a word stands for a missing value in other languages. */
export const meansMissing = (word: string): boolean => missing.has(word.toLowerCase())
