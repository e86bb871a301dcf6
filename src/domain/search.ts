import { foldSearch } from './text.ts'

/** What is searched for in titles and descriptions. */
export interface Search {
  /** In PostgreSQL's query syntax; empty when there is no word in it. */
  readonly words: string
  /**
   * A query that finds at least what `words` finds, and that an index answers without reading the tasks: no phrases and
   * nothing excluded. Empty where there is none.
   */
  readonly index: string
  /** All of it, folded: a part of a title. */
  readonly part: string
}

/**
 * Reads a search as people write it for search engines: words that must all be there, "several in a row" in quotes, `or`
 * between alternatives, and a minus in front of what must not be there. A word is found by its beginning, unless it is
 * quoted.
 *
 * Words are split here exactly as words_of() splits them in the database.
 */
export const parseSearch = (text: string): Search => {
  let words = ''
  let operator = ''
  const alternatives: string[][] = [[]]
  for (const { groups = {} } of text.matchAll(term)) {
    const { minus, quoted, bare } = groups
    if (bare?.toLowerCase() === 'or' && minus === '') {
      operator = ' | '
      continue
    }
    const phrase = phraseOf(foldSearch(quoted ?? bare ?? ''), bare !== undefined)
    if (phrase === '') continue
    if (operator === ' | ' && words !== '') alternatives.push([])
    if (minus === '') alternatives.at(-1)?.push(...phrase.split(between).slice(0, maxIndexed))
    words += `${words === '' ? '' : operator}${minus === '' ? '' : '!'}(${phrase})`
    operator = ' & '
  }
  return { words, index: indexOf(alternatives), part: foldSearch(text) }
}

/** Words of an alternative, and alternatives, that are looked up in an index. More of them make it no faster. */
const maxIndexed = 8

const between = / <\d+> /

const indexOf = (alternatives: readonly (readonly string[])[]): string =>
  alternatives.length > maxIndexed || alternatives.some((words) => words.length === 0)
    ? ''
    : alternatives.map((words) => words.slice(0, maxIndexed).join(' & ')).join(' | ')

const term = /(?<minus>-?)(?:"(?<quoted>[^"]*)"?|(?<bare>[^\s"]+))/g

/** Letters and digits in a row. */
const word = /[\p{L}\p{Nd}]+/gu
/** Scripts that put no spaces between words, and others. */
const run =
  /[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\u{20000}-\u{3ffff}]+|[^\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\u{20000}-\u{3ffff}]+/gu
const isUnspaced = /^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\u{20000}-\u{3ffff}]/u
const longestWord = 64

/** Words that stand in a row; the last one may go on if `isOpen`. */
const phraseOf = (folded: string, isOpen: boolean): string => {
  const runs = (folded.match(word) ?? []).flatMap((one) => one.match(run) ?? [])
  const lexemes: { readonly text: string; readonly position: number; readonly isPrefix: boolean }[] = []
  let position = 0
  for (const [index, text] of runs.entries()) {
    const characters = Array.from(text)
    if (isUnspaced.test(text)) {
      // Kept as pairs of neighbours, the last character alone.
      const pairs = characters.slice(0, -1).map((character, at) => `${character}${characters[at + 1]}`)
      for (const [at, pair] of pairs.entries())
        lexemes.push({ text: pair, position: position + at, isPrefix: false })
      if (pairs.length === 0) lexemes.push({ text, position, isPrefix: true })
      position += characters.length
    } else {
      const isPrefix = isOpen && index === runs.length - 1
      lexemes.push({ text: characters.slice(0, longestWord).join(''), position, isPrefix })
      position += 1
    }
  }
  return lexemes
    .map(({ text, position: at, isPrefix }, index) => {
      const distance = at - (lexemes[index - 1]?.position ?? at)
      return `${index === 0 ? '' : ` <${distance}> `}'${text}'${isPrefix ? ':*' : ''}`
    })
    .join('')
}
