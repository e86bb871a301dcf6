import t from 'tap'
import { FilterError } from '../../../src/domain/shared/filter-expression.ts'
import { readTaskCondition } from '../../../src/domain/tasks/condition.ts'
import { unknownId } from '../../fixture/tasks.ts'

/** What the filters of tasks refuse. `test/filter.ts` tests what they match. */

const context = { now: new Date(), userId: unknownId, timeZone: 'UTC' }

const refusalOf = (filter: string): FilterError => {
  try {
    readTaskCondition(filter, context)
  } catch (error) {
    if (error instanceof FilterError) return error
    throw error
  }
  throw new Error(`${filter} is valid`)
}

t.test('a syntax error has its position, the token found and the tokens expected', async (t) => {
  const cases: Readonly<Record<string, readonly [number, string, RegExp]>> = {
    // Syntax
    'status =': [9, 'the end', /a value/],
    'status = todo AND': [18, 'the end', /a comparison/],
    'AND status = todo': [1, 'AND', /a comparison/],
    'status = todo OR OR a': [18, 'OR', /a comparison/],
    '= todo': [1, '=', /a comparison/],
    'status = todo = done': [15, '=', /AND, OR/],
    'status = AND': [10, 'AND', /a value/],
    'NOT NOT status = todo': [5, 'NOT', /a comparison/],
    NOT: [4, 'the end', /a comparison/],
    '-': [2, 'the end', /a comparison/],
    '()': [2, ')', /a comparison/],
    '(status = todo': [15, 'the end', /\)/],
    'status = todo)': [14, ')', /AND, OR/],
    'status = (todo OR done)': [10, '(', /a value/],
    'status = "todo': [10, '"', /a closing "/],
    "title = 'x": [9, "'", /a closing '/],
    [String.raw`title = a\b`]: [10, '\\', /only inside quotes/],
    [String.raw`title = "a\n"`]: [9, String.raw`"a\n"`, /one of the escapes/],
    'title = "a*b"': [9, '"a*b"', /only at the start or end/],
    'title = -"1"': [10, '"1"', /a word/],
    'lower(title) = "x"': [1, 'lower(', /no function/],
    'due_at < now()': [10, 'now(', /no function/],
    'timestamp("x")': [1, 'timestamp(', /no function/],
    // Positions count characters, not UTF-16 code units.
    'title = "😀😀" AND = 3': [18, '=', /a comparison/],
    // Names
    'prio = high': [1, 'prio', /^priority, or one of id, title, .*, tags/],
    'Status = todo': [1, 'Status', /^status, or one of id/],
    'stauts = todo': [1, 'stauts', /^status, or one of id/],
    'stat != todo AND x = 1': [1, 'stat', /^status, or one of id/],
    'status = todo AND assignee = me': [19, 'assignee', /^assignee_id, or one of id/],
    'tag:bug': [1, 'tag', /^tags, or one of id/],
    'created < now': [1, 'created', /^created_at, or one of id/],
    'atachment_count > 1': [1, 'atachment_count', /^attachment_count, or one of id/],
    'is:open': [1, 'is', /^one of id/],
    'owner.username = x': [1, 'owner.username', /one of id/],
    'title_folded = x': [1, 'title_folded', /one of id/],
    'constructor = x': [1, 'constructor', /one of id/],
    '__proto__ = x': [1, '__proto__', /one of id/],
    '1 = 1': [1, '1', /one of id/],
    'title* = x': [1, 'title*', /one of id/],
    '*:x': [1, '*', /one of id/],
    'prio:*': [1, 'prio', /one of id/],
    // Values
    'status = open': [10, 'open', /one of todo, in_progress, done, cancelled/],
    'status = TODO': [10, 'TODO', /one of todo/],
    'status = ""': [10, '""', /one of todo/],
    'status = to*': [10, 'to*', /one of todo/],
    'status = *': [10, '*', /one of todo/],
    'priority > hgih': [12, 'hgih', /one of none, low, medium, high, urgent/],
    'priority > 3': [12, '3', /one of none/],
    'id = me': [6, 'me', /a UUID$/],
    'owner_id = ada': [12, 'ada', /a UUID or me/],
    'assignee_id = ""': [15, '""', /a UUID or me/],
    'assignee_id = null': [15, 'null', /NOT assignee_id:\*/],
    'assignee_id != NULL': [16, 'NULL', /^assignee_id:\*/],
    'description = null': [15, 'null', /NOT description:\*/],
    'tags:null': [6, 'null', /NOT tags:\*/],
    [`owner_id = ${unknownId}0`]: [12, `${unknownId}0`, /a UUID or me/],
    'due_at < tomorrow': [10, 'tomorrow', /a time such as/],
    'due_at < 2026-02-30': [10, '2026-02-30', /a time/],
    'due_at < 2026-01-31T25:00:00Z': [10, '2026-01-31T25:00:00Z', /a time/],
    'due_at < 2026-01-31T10pm': [10, '2026-01-31T10pm', /a time/],
    'due_at < 2026-01-31T10:00:00': [10, '2026-01-31T10:00:00', /a time/],
    'due_at < 0000-01-01': [10, '0000-01-01', /a time/],
    'due_at < now+7': [10, 'now+7', /a time/],
    'due_at < now+7y': [10, 'now+7y', /a time/],
    'due_at < now+7D': [10, 'now+7D', /a time/],
    'due_at < now+999999999w': [10, 'now+999999999w', /a time/],
    'due_at < now-3000000d': [10, 'now-3000000d', /a time/],
    'due_at < 7d': [10, '7d', /a time/],
    'due_at < now 7d': [14, '7d', /%2B/],
    'due_at < now +7d': [14, '+7d', /%2B/],
    'attachment_count > many': [20, 'many', /a number/],
    'attachment_count > 1e999': [20, '1e999', /a number/],
    'attachment_count > 0x10': [20, '0x10', /a number/],
    'attachment_count > NaN': [20, 'NaN', /a number/],
    'attachment_count > ""': [20, '""', /a number/],
    'title:wri*': [7, 'wri*', /without \*/],
    '"wri*"': [1, '"wri*"', /without \*/],
    '""': [1, '""', /a word/],
    // Words without quotes
    crash: [1, 'crash', /quote them or use q/],
    'the crash': [1, 'the', /quote them or use q/],
    '-the': [2, 'the', /quote them or use q/],
    'wri*': [1, 'wri*', /quote them or use q/],
    'status = todo crash': [15, 'crash', /quote them or use q/],
    'title = two words': [13, 'words', /quote them or use q/],
    'status todo': [1, 'status', /an operator and a value after status/],
    'NOT is_blocked': [5, 'is_blocked', /an operator and a value after is_blocked/],
    // Operators
    'status < done': [8, '<', /=, != or :/],
    'title >= a': [7, '>=', /=, != or :/],
    'owner_id > me': [10, '>', /=, != or :/],
    'tags = bug': [6, '=', /:, because/],
    'tags != bug': [6, '!=', /:, because/],
    // Fields of other programs
    'metadata = 1': [10, '=', /: and a key, or metadata\.key/],
    'metadata:Customer': [10, 'Customer', /a key of metadata/],
    'metadata:cust*': [10, 'cust*', /a key of metadata/],
    'metadata. = 1': [1, 'metadata.', /a key of metadata/],
    'metadata.a.b = 1': [1, 'metadata.a.b', /a key of metadata/],
    'metadata.key = a*': [16, 'a*', /without \*/],
    'metadata.key > 1': [14, '>', /=, != or :/],
    'metadata.key = null': [16, 'null', /NOT metadata:key/],
    'metadat.key = 1': [1, 'metadat.key', /one of id/],
    'metadata* = 1': [1, 'metadata*', /one of id/],
    'metdata:key': [1, 'metdata', /^metadata, or one of id/],
    'external_id >= 1': [13, '>=', /=, != or :/],
    'external_id = null': [15, 'null', /NOT external_id:\*/],
    'external_source != null': [20, 'null', /^external_source:\*/],
  }
  for (const [filter, [position, found, expected]] of Object.entries(cases)) {
    const error = refusalOf(filter)
    t.strictSame([error.at, error.found], [position, found], filter)
    t.match(error.expected, expected, filter)
  }
})

t.test('an operator of another language is named, and the right one', async (t) => {
  /** What to write instead, by the operator. */
  const binary: Readonly<Record<string, RegExp>> = {
    // Symbols
    '==': /^=;/,
    '===': /^=;/,
    '<>': /^!=;/,
    '!==': /^!=;/,
    '=!': /^!=;/,
    ':!=': /^!=;/,
    '≠': /^!=;/,
    '=>': /^>=;/,
    '≥': /^>=;/,
    '=<': /^<=;/,
    ':>': /^>;/,
    ':<=': /^<=;/,
    ':=': /^=;/,
    '::': /^: between/,
    '~': /^: between/,
    '=~': /^: between/,
    '~=': /^: between/,
    '*=': /^: between/,
    '!~': /^NOT, and :/,
    '^=': /^= with \* at the end/,
    '$=': /^= with \* at the start/,
    '!': /NOT before a comparison, or !=/,
    '<=>': /^one of = !=/,
    '&&': /^AND;/,
    '&': /^AND;/,
    ';': /^AND;/,
    '||': /^OR;/,
    '|': /^OR;/,
    ',': /^OR between comparisons/,
    '[': /^OR between comparisons/,
    // Words
    eq: /^=$/,
    EQ: /^=$/,
    equals: /^=$/,
    is: /^=, or NOT/,
    ne: /^!=$/,
    gt: /^>$/,
    ge: /^>=$/,
    gte: /^>=$/,
    lt: /^<$/,
    le: /^<=$/,
    contains: /^: between/,
    like: /^: between/,
    ILIKE: /^: between/,
    has: /^: between/,
    matches: /^: between/,
    startswith: /^= with \* at the end/,
    endsWith: /^= with \* at the start/,
    in: /^OR between comparisons/,
    IN: /^OR between comparisons/,
    not: /^NOT in upper case/,
    between: /^>= and <=/,
    and: /^AND in upper case/,
    Or: /^OR in upper case/,
  }
  for (const [operator, expected] of Object.entries(binary)) {
    // Also in fields that do not exist, after another comparison, and before anything else that is wrong.
    for (const [before, after] of [
      ['status ', ' todo'],
      ['title ', ' "two words"'],
      ['stauts ', ' todo'],
      ['status = todo AND priority ', ' (high, low)'],
      ['"😀" ', ' status = todo'],
    ]) {
      const filter = `${before}${operator}${after}`
      const position = Array.from(before ?? '').length + 1
      const error = refusalOf(filter)
      t.strictSame([error.at, error.found], [position, operator], filter)
      t.match(error.expected, expected, filter)
    }
    if (/^\w/.test(operator)) continue
    const error = refusalOf(`status${operator}todo`)
    t.match(error.expected, ['*=', '$='].includes(operator) ? /./ : expected, 'also without spaces')
  }

  const others: Readonly<Record<string, readonly [number, string, RegExp]>> = {
    'status = todo && priority = high': [15, '&&', /AND/],
    'status = todo || status = done': [15, '||', /OR/],
    'status=todo&&priority=high': [12, '&&', /AND/],
    '!(status = todo)': [1, '!', /NOT/],
    '!status': [1, '!', /NOT/],
    'status -eq todo': [9, 'eq', /^=$/],
    'status in [todo, done]': [8, 'in', /OR/],
    "status in ('todo', 'done')": [8, 'in', /OR/],
    'due is null': [5, 'is', /NOT due:\*/],
    'due between 2026-01-01 and 2026-02-01': [5, 'between', />= and <=/],
    'contains(title, "x")': [1, 'contains', /:/],
    'not(status = todo)': [1, 'not', /NOT/],
    'title like %foo%': [7, 'like', /:/],
    'title = %foo%': [9, '%', /\* at the start or the end/],
    'title = wh?t': [11, '?', /\* at the start or the end/],
    'title =/foo/': [8, '/', /no regular expressions/],
    'title:R&D': [8, '&', /quote a text that contains it/],
    'status = “todo”': [10, '“', /"/],
    'title = ‘Old’': [9, '‘', /"/],
    '`status` = todo': [1, '`', /"/],
    '{"status":"todo"}': [1, '{', /./],
  }
  for (const [filter, [position, found, expected]] of Object.entries(others)) {
    const error = refusalOf(filter)
    t.strictSame([error.at, error.found], [position, found], filter)
    t.match(error.expected, expected, filter)
  }

  t.test('the same words and symbols are valid in quotes and as values', async (t) => {
    for (const word of [...Object.keys(binary).filter((operator) => operator !== '*='), 'status', 'null'])
      for (const filter of [`"${word}"`, `title = "${word}"`, `title:'${word}'`])
        t.ok(readTaskCondition(filter, context), filter)
    for (const word of Object.keys(binary).filter((operator) => /^\w/.test(operator)))
      t.ok(readTaskCondition(`title = ${word} OR tags:${word}`, context), word)
  })
})
