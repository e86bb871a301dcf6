import {
  createToken,
  EmbeddedActionsParser,
  EOF,
  type IParserErrorMessageProvider,
  type IToken,
  Lexer,
  type ParserMethod,
} from 'chevrotain'
import { insteadOfSymbol, insteadOfWord } from './foreign-operators.ts'

/**
 * The syntax of filters: Google's AIP-160 (https://google.aip.dev/160) without functions and composite arguments. Operators of other
 * languages are refused; AIP-160 would search for them. `domain/tasks/condition.ts` resolves the names, and refuses words without quotes.
 */

/** The syntax tree of a filter. */
export type Expression = Combined<ExpressionLeaf>
type ExpressionLeaf = ComparisonExpression | { readonly kind: 'word'; readonly word: Word }

/** Leaves, and what AND, OR and NOT make of them. */
export type Combined<Leaf> =
  | Leaf
  | { readonly kind: 'and' | 'or'; readonly operands: readonly Combined<Leaf>[] }
  | { readonly kind: 'not'; readonly operand: Combined<Leaf> }

export interface ComparisonExpression {
  readonly kind: 'comparison'
  readonly field: Word
  readonly operator: Operator
  /** Position of the operator, as in `Word`. */
  readonly at: number
  readonly value: Word
}

export type Operator = '=' | '!=' | '<' | '<=' | '>' | '>=' | ':'
export type Comparison = Exclude<Operator, ':'>

/** A name or a value in a filter. */
export interface Word {
  /** Without quotes, escapes, and wildcards at the ends. */
  readonly text: string
  readonly isQuoted: boolean
  /** Whether the word starts, or ends, with a wildcard. */
  readonly hasOpenStart: boolean
  readonly hasOpenEnd: boolean
  /** The source text. */
  readonly image: string
  /** Position of the first character, counted from 1. */
  readonly at: number
}

/** A syntax error, unknown name or invalid value in a filter. */
export class FilterError extends Error {
  override readonly name = 'FilterError'
  /** Position of the character, counted from 1. */
  readonly at: number
  readonly found: string
  readonly expected: string

  constructor(at: number, found: string, expected: string) {
    super(`At character ${at}: found ${found}, expected ${expected}`)
    this.at = at
    this.found = found
    this.expected = expected
  }
}

/** More than a realistic filter needs, and far below the limit of the call stack. */
const maxDepth = 20
const maxTerms = 50

// AIP-160 separates words at dots. No field here has subfields, so a dot is part of a word.
// Characters of operators, here and in other languages, are in words only inside quotes.
const text = createToken({
  name: 'Text',
  label: 'a word',
  pattern: /[^\s()<>=!:~&|^≠≤≥≈¬∧∨＝,;?%`[\]{}“”„«»"\\'‘’/-][^\s()<>=!:~&|^≠≤≥≈¬∧∨＝,;?%`[\]{}“”„«»"\\]*/,
})
const quoted = createToken({
  name: 'String',
  label: 'quoted text',
  pattern: /"(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*'/y,
  line_breaks: true,
})
// The only word that may contain colons. Its value is validated by `readTime`.
const timestamp = createToken({
  name: 'Timestamp',
  label: 'a time',
  pattern: /\d{4}-\d\d-\d\d[Tt]\d[\d:.]*(?:[Zz]|[+-][\d:]+)?/,
  longer_alt: text,
})
const operator = createToken({
  name: 'Operator',
  label: 'an operator',
  pattern: /(?:[<>!]=|[=<>:])(?![=<>!:~&|^≠≤≥≈¬∧∨＝])/,
})
const foreignOperator = createToken({
  name: 'ForeignOperator',
  label: 'an operator of another language',
  pattern: /[*$]=|[=<>!:~&|^≠≤≥≈¬∧∨＝]+|[,;?%`[\]{}“”„«»‘’/]/,
})
const keyword = (name: string) => createToken({ name, label: name, pattern: name, longer_alt: text })
const and = keyword('AND')
const or = keyword('OR')
const not = keyword('NOT')
const minus = createToken({ name: 'Minus', label: '-', pattern: '-' })
const open = createToken({ name: 'Open', label: '(', pattern: '(' })
const close = createToken({ name: 'Close', label: ')', pattern: ')' })
const space = createToken({ name: 'Space', pattern: /\s+/, group: Lexer.SKIPPED, line_breaks: true })

const tokens = [space, timestamp, and, or, not, quoted, operator, foreignOperator, minus, open, close, text]

// Recovery searches for the end of an unclosed string again from each character, which takes quadratic time.
const lexer = new Lexer(tokens, { positionTracking: 'onlyOffset', recoveryEnabled: false })

const expectedTerm = 'a comparison such as status = todo, text to search for in quotes, or ('
const expectedValue = 'a value: a word, a number, a time or quoted text'
const valueRules = new Set(['arg', 'value'])

/** The expected input at a syntax error. */
const expectations: IParserErrorMessageProvider = {
  buildMismatchTokenMessage: ({ expected }) => expected.LABEL ?? expected.name,
  buildNotAllInputParsedMessage: () => 'AND, OR, another comparison, or the end',
  buildNoViableAltMessage: ({ ruleName }) => (valueRules.has(ruleName) ? expectedValue : expectedTerm),
  buildEarlyExitMessage: () => expectedTerm,
}

const combine = (kind: 'and' | 'or', operands: readonly Expression[]): Expression => {
  const [first] = operands
  return operands.length === 1 && first !== undefined ? first : { kind, operands }
}

/** Rules have the names of AIP-160's EBNF. OR binds more tightly than AND; whitespace means AND. */
class FilterParser extends EmbeddedActionsParser {
  readonly expression: ParserMethod<[], Expression> = this.RULE('expression', () => {
    const operands = [this.SUBRULE(this.sequence)]
    this.MANY(() => {
      this.CONSUME(and)
      operands.push(this.SUBRULE2(this.sequence))
    })
    return combine('and', operands)
  })

  private readonly sequence: ParserMethod<[], Expression> = this.RULE('sequence', () => {
    const operands: Expression[] = []
    this.AT_LEAST_ONE(() => operands.push(this.SUBRULE(this.factor)))
    return combine('and', operands)
  })

  private readonly factor: ParserMethod<[], Expression> = this.RULE('factor', () => {
    const operands = [this.SUBRULE(this.term)]
    this.MANY(() => {
      this.CONSUME(or)
      operands.push(this.SUBRULE2(this.term))
    })
    return combine('or', operands)
  })

  private readonly term: ParserMethod<[], Expression> = this.RULE('term', (): Expression => {
    const negation = this.OPTION(() =>
      this.OR([{ ALT: () => this.CONSUME(not) }, { ALT: () => this.CONSUME(minus) }]),
    )
    const operand = this.SUBRULE(this.simple)
    return negation === undefined ? operand : { kind: 'not', operand }
  })

  private readonly simple: ParserMethod<[], Expression> = this.RULE('simple', () =>
    this.OR([{ ALT: () => this.SUBRULE(this.composite) }, { ALT: () => this.SUBRULE(this.restriction) }]),
  )

  private readonly composite: ParserMethod<[], Expression> = this.RULE('composite', () => {
    this.CONSUME(open)
    const expression = this.SUBRULE(this.expression)
    this.CONSUME(close)
    return expression
  })

  private readonly restriction: ParserMethod<[], Expression> = this.RULE('restriction', (): Expression => {
    const word = this.SUBRULE(this.value)
    const comparison = this.OPTION(() => {
      const { image, startOffset } = this.CONSUME(operator)
      return { operator: image as Operator, at: startOffset, value: this.SUBRULE(this.arg) }
    })
    return comparison === undefined
      ? { kind: 'word', word }
      : { kind: 'comparison', field: word, ...comparison }
  })

  private readonly arg: ParserMethod<[], Word> = this.RULE('arg', () =>
    this.OR([{ ALT: () => this.SUBRULE(this.negative) }, { ALT: () => this.SUBRULE(this.value) }]),
  )

  private readonly negative: ParserMethod<[], Word> = this.RULE('negative', () => {
    const { startOffset } = this.CONSUME(minus)
    const { image } = this.CONSUME(text)
    return this.ACTION(() => readWord(`-${image}`, startOffset))
  })

  private readonly value: ParserMethod<[], Word> = this.RULE('value', () => {
    const token = this.OR([
      { ALT: () => this.CONSUME(text) },
      { ALT: () => this.CONSUME(quoted) },
      { ALT: () => this.CONSUME(timestamp) },
    ])
    return this.ACTION(() => readWord(token.image, token.startOffset))
  })

  constructor() {
    super(tokens, { errorMessageProvider: expectations, maxLookahead: 1 })
    this.performSelfAnalysis()
  }
}

/** Created on first use: the analysis of the grammar would take longer than most of the startup. */
let filterParser: FilterParser | undefined

/**
 * Parses a filter; null if it is empty, which AIP-160 allows.
 *
 * @throws FilterError
 */
export const parseFilter = (source: string): Expression | null => {
  const { tokens, errors } = lexer.tokenize(source)
  const [unreadable] = errors
  const numbered = numberCharacters(source, tokens)
  checkOperators(numbered)
  if (unreadable !== undefined) throw unreadableCharacter(source, unreadable.offset)
  if (tokens.length === 0) return null
  checkBounds(numbered)
  const parser = (filterParser ??= new FilterParser())
  parser.input = numbered
  const expression = parser.expression()
  const [error] = parser.errors
  if (error === undefined) return expression
  const { tokenType, startOffset, image } = error.token
  throw tokenType === EOF
    ? new FilterError(countCharacters(source) + 1, 'the end', error.message)
    : new FilterError(startOffset, image, error.message)
}

const unreadableCharacter = (source: string, offset: number): FilterError => {
  const [character = ''] = source.slice(offset)
  const expected = `"'`.includes(character) ? `a closing ${character}` : 'this character only inside quotes'
  return new FilterError(countCharacters(source.slice(0, offset)) + 1, character, expected)
}

const countCharacters = (text: string): number => Array.from(text).length

/** Converts token offsets from UTF-16 code units, counted from 0, to characters, counted from 1. */
const numberCharacters = (source: string, tokens: readonly IToken[]): IToken[] => {
  let units = 0
  let characters = 1
  return tokens.map((token) => {
    characters += countCharacters(source.slice(units, token.startOffset))
    units = token.startOffset
    return { ...token, startOffset: characters }
  })
}

/** Refuses the first operator of another language. A word that is compared, or a value, is not an operator. */
const checkOperators = (tokens: readonly IToken[]): void => {
  for (const [index, { tokenType, startOffset, image }] of tokens.entries()) {
    if (tokenType === foreignOperator) throw new FilterError(startOffset, image, insteadOfSymbol(image))
    const before = tokens[index - (tokens[index - 1]?.tokenType === minus ? 2 : 1)]?.tokenType
    const isCompared = before === operator || tokens[index + 1]?.tokenType === operator
    const expected = tokenType === text && !isCompared ? insteadOfWord(image) : null
    if (expected !== null) throw new FilterError(startOffset, image, expected)
  }
}

const words = new Set([text, quoted, timestamp])

/** Limits nesting and terms. Runs before the parser, which is recursive. */
const checkBounds = (tokens: readonly IToken[]): void => {
  let depth = 0
  let terms = 0
  for (const [index, { tokenType, startOffset, image }] of tokens.entries()) {
    if (tokenType === open) {
      const before = tokens[index - 1]
      if (before?.tokenType === text && before.startOffset + countCharacters(before.image) === startOffset)
        throw new FilterError(
          before.startOffset,
          `${before.image}(`,
          'no function call; functions are not supported',
        )
      depth += 1
      if (depth > maxDepth)
        throw new FilterError(startOffset, image, `at most ${maxDepth} nested parentheses`)
    }
    if (tokenType === close) depth -= 1
    if (words.has(tokenType)) terms += 1
    if (tokenType === operator) terms -= 1
    if (terms > maxTerms) throw new FilterError(startOffset, image, `at most ${maxTerms} comparisons`)
  }
}

const wildcard = '*'

const readWord = (image: string, at: number): Word => {
  const isQuoted = /^["']/.test(image)
  const pieces = (isQuoted ? image.slice(1, -1).match(/\\[^]|[^]/g) : image.match(/[^]/g)) ?? []
  const hasOpenStart = pieces[0] === wildcard
  const hasOpenEnd = pieces.at(-1) === wildcard
  const between = pieces.slice(hasOpenStart ? 1 : 0, hasOpenEnd ? -1 : undefined)
  const read = (piece: string): string => {
    if (piece === wildcard)
      throw new FilterError(at, image, String.raw`* only at the start or end, or \* in quotes`)
    if (piece.length === 1 || !isQuoted) return piece
    if (/^\\["'\\*]/.test(piece)) return piece.slice(1)
    throw new FilterError(at, image, String.raw`one of the escapes \" \' \\ \*`)
  }
  return { text: between.map(read).join(''), isQuoted, hasOpenStart, hasOpenEnd, image, at }
}

/** What a filter is once its names and values are resolved. */
export const resolveLeaves = <Leaf>(
  expression: Expression,
  resolve: (leaf: ExpressionLeaf) => Combined<Leaf>,
): Combined<Leaf> => {
  switch (expression.kind) {
    case 'and':
    case 'or':
      return {
        kind: expression.kind,
        operands: expression.operands.map((operand) => resolveLeaves(operand, resolve)),
      }
    case 'not':
      return { kind: 'not', operand: resolveLeaves(expression.operand, resolve) }
    case 'comparison':
    case 'word':
      return resolve(expression)
  }
}

/** The operator. On a field with a single value, `:` means `=`. */
export const readOrder = ({ operator }: ComparisonExpression): Comparison =>
  operator === ':' ? '=' : operator

/** @throws FilterError */
export const readEquality = (comparison: ComparisonExpression): '=' | '!=' => {
  const operator = readOrder(comparison)
  if (operator === '=' || operator === '!=') return operator
  throw new FilterError(comparison.at, operator, '=, != or :, because this field has no order')
}

export const isWildcard = ({ text, hasOpenStart }: Word): boolean => text === '' && hasOpenStart

/** @throws FilterError */
export const withoutWildcards = (word: Word, expected: string): Word => {
  if (word.hasOpenStart || word.hasOpenEnd) throw unexpected(word, expected)
  return word
}

export const unexpected = ({ at, image }: Word, expected: string): FilterError =>
  new FilterError(at, image, expected)
