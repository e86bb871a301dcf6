import { foldSearch } from './text.ts'

/** A full-text search in titles and descriptions. */
export interface Search {
  /** A tsquery in PostgreSQL's syntax; empty if the text has no words. */
  readonly words: string
  /**
   * A tsquery without phrases and negations, so that the index needs no recheck. Matches a superset of `words`. Empty if none
   * exists.
   */
  readonly index: string
  /** The whole text, folded, for a substring match in titles. */
  readonly part: string
}

/**
 * Parses the syntax of search engines: all words are required, quotes make a phrase, `or` separates alternatives, a minus
 * excludes. An unquoted word matches as a prefix.
 *
 * Words are split exactly as `words_of` in routines.sql splits them.
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

/** Maximum number of alternatives, and of words per alternative, in an index query. More would not make it more selective. */
const maxIndexed = 8

const between = / <\d+> /

const indexOf = (alternatives: readonly (readonly string[])[]): string =>
  alternatives.length > maxIndexed || alternatives.some((words) => words.length === 0)
    ? ''
    : alternatives.map((words) => words.slice(0, maxIndexed).join(' & ')).join(' | ')

const term = /(?<minus>-?)(?:"(?<quoted>[^"]*)"?|(?<bare>[^\s"]+))/g

/** A run of letters and digits. */
const word = /[\p{L}\p{Nd}]+/gu
/** Splits a word into runs of scripts without word spaces (CJK, Thai, Lao) and runs of other scripts. */
const run =
  /[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\u{20000}-\u{3ffff}]+|[^\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\u{20000}-\u{3ffff}]+/gu
const isUnspaced = /^[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\u{20000}-\u{3ffff}]/u
const maxWordLength = 64

/** The tsquery of a phrase; its last word is a prefix if `isOpen`. */
const phraseOf = (folded: string, isOpen: boolean): string => {
  const runs = (folded.match(word) ?? []).flatMap((one) => one.match(run) ?? [])
  const lexemes: { readonly text: string; readonly position: number; readonly isPrefix: boolean }[] = []
  let position = 0
  for (const [index, text] of runs.entries()) {
    const characters = Array.from(text)
    if (isUnspaced.test(text)) {
      // Indexed as bigrams; the last character stands alone.
      const bigrams = characters.slice(0, -1).map((character, at) => `${character}${characters[at + 1]}`)
      for (const [at, bigram] of bigrams.entries())
        lexemes.push({ text: bigram, position: position + at, isPrefix: false })
      if (bigrams.length === 0) lexemes.push({ text, position, isPrefix: true })
      position += characters.length
    } else {
      const isPrefix = isOpen && index === runs.length - 1
      lexemes.push({ text: characters.slice(0, maxWordLength).join(''), position, isPrefix })
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
