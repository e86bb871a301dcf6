import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { escapeInvisible } from '../../src/db/shared/folded-characters.ts'
import { findPackage } from '../../src/postgres/binaries.ts'

/**
 * Generates the table of `foldSearch` in domain/shared/text.ts, which fold_text() of migrations/folding.sql shares: the text that stands for a
 * character in searches and orders, for every character that is not compared as it is.
 *
 * The sources are the collation for searches of CLDR, as ICU has it (its primary strength ignores case and accents), and for
 * Latin letters and punctuation that this collation keeps apart (þ, ı, ’), the transliteration Latin-ASCII of CLDR, as
 * PostgreSQL's `unaccent` has it.
 */

const table = fileURLToPath(new URL('../../src/domain/shared/folded-characters.json', import.meta.url))

/** The rules of `unaccent`: a character, a tab, and what replaces it, in quotes if it has spaces or quotes. */
const readRules = (): ReadonlyMap<string, string> => {
  const path = join(findPackage(), 'native/share/postgresql/tsearch_data/unaccent.rules')
  const rules = readFileSync(path, 'utf8').trimEnd().split('\n')
  return new Map(
    rules.map((rule) => {
      const [character = '', replacement = ''] = rule.split('\t')
      return [character, replacement.replace(/^"(.*)"$/, '$1').replaceAll('""', '"')]
    }),
  )
}

// English has the root collation; `und` would be the locale of the process.
const primary = new Intl.Collator('en', { usage: 'search', sensitivity: 'base' })
const tertiary = new Intl.Collator('en', { usage: 'search' })
const isSame = (a: string, b: string): boolean => primary.compare(a, b) === 0

const lowerCase = (value: string): string => value.toLowerCase().replaceAll('ς', 'σ')

/**
 * The primary strength merges kana with and without voicing marks, and small and large kana, which are different words. Of
 * Hangul, it merges the consonants at the end of a syllable with those at the start, which would not compose.
 */
const isKanaOrHangul = (value: string): boolean =>
  /[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3099\u309a]/u.test(value)

const toHiragana = (value: string): string =>
  value.replaceAll(/[\u30a1-\u30f6\u30fd\u30fe]/g, (kana) =>
    String.fromCodePoint((kana.codePointAt(0) ?? 0) - 0x60),
  )

/** Characters in NFC, in which all text is stored and searched. Ideographs and Hangul syllables are compared as they are. */
const characters = Array.from({ length: 0x110000 }, (_, code) => String.fromCodePoint(code)).filter(
  (character) =>
    !/[\p{Cn}\p{Co}\p{Cs}\p{Unified_Ideograph}\uac00-\ud7a3]/u.test(character) &&
    (character > '\x7f' || /[A-Z]/.test(character)) &&
    character.normalize('NFC') === character,
)

/** Letters and digits without a decomposition, by the first of those that are the same. */
const firstOfSame = new Map<string, string>()
const letters = [...characters, ...Array.from('abcdefghijklmnopqrstuvwxyz0123456789')].filter(
  (character) =>
    /[\p{L}\p{N}]/u.test(character) &&
    lowerCase(character) === character &&
    character.normalize('NFKD') === character &&
    !isKanaOrHangul(character) &&
    !isSame(character, ''),
)
let first = ''
for (const letter of letters.toSorted(
  (a, b) => primary.compare(a, b) || tertiary.compare(a, b) || (a < b ? -1 : 1),
)) {
  if (isSame(first, letter)) firstOfSame.set(letter, first)
  else first = letter
}

const rules = readRules()
const replacementOf = (character: string): string | undefined =>
  /[\p{L}\p{P}]/u.test(character) ? rules.get(character) : undefined

const foldCharacter = (character: string): string => {
  const decomposed = character.normalize('NFKD')
  const composed = character.normalize('NFKC')
  // A mark on a space stands for itself.
  if (/^ ./.test(composed)) return character
  if (isKanaOrHangul(decomposed)) return toHiragana(composed)
  const bare = decomposed.replaceAll(/[\p{M}\p{Cf}]/gu, '')
  const candidates = ['', bare, ...(Array.from(composed).some((part) => isSame(part, '')) ? [] : [composed])]
  const plain = candidates.find((candidate) => isSame(character, candidate)) ?? character
  const folded = Array.from(lowerCase(plain), (letter) => {
    const same = firstOfSame.get(letter) ?? letter
    return lowerCase(replacementOf(letter) ?? replacementOf(same) ?? same)
  })
  return folded.join('').normalize('NFC')
}

const byFolded = Map.groupBy(characters, foldCharacter)
const groups = [...byFolded].flatMap(([folded, sources]) => {
  const changed = sources.filter((character) => character !== folded)
  return changed.length === 0 ? [] : [[folded, changed.join('')] as const]
})

const json = JSON.stringify(Object.fromEntries(groups.toSorted(([a], [b]) => (a < b ? -1 : 1))), null, 2)
writeFileSync(table, `${escapeInvisible(json)}\n`)
