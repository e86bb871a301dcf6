import foldedGroups from './folded-characters.json' with { type: 'json' }

/** Maximum run of combining marks, from the Stream-Safe Text Format (UAX #15, section 13). */
export const maxMarksInRow = 30

/** Maximum length of text to normalize, in UTF-16 code units. */
export const maxNormalizedLength = 16_384

/**
 * Normalization sorts each run of combining marks, which takes V8 quadratic time. U+FF9E and U+FF9F are not marks, but NFKC and
 * NFKD convert them to marks.
 */
const marksInRow = /[\p{M}\uff9e\uff9f]{1,31}/gu

/** Whether text has a longer run of combining marks than any language uses. Takes linear time. */
export const hasTooManyMarks = (text: string): boolean => {
  for (const [run] of text.matchAll(marksInRow)) {
    if (run.length > maxMarksInRow && Array.from(run).length > maxMarksInRow) return true
  }
  return false
}

/** Text with at most `maxMarksInRow` marks in a row. */
export const withFewerMarks = (text: string): string => {
  if (!hasTooManyMarks(text)) return text
  let inRow = 0
  return Array.from(text, (character) => {
    inRow = /[\p{M}\uff9e\uff9f]/u.test(character) ? inRow + 1 : 0
    return inRow > maxMarksInRow ? '' : character
  }).join('')
}

/** Text that would take too long to normalize. Request validation refuses such text earlier; this is defence in depth. */
export class TextTooCostly extends Error {
  override readonly name = 'TextTooCostly'
}

/** The only caller of `String.prototype.normalize` on text of unknown size. */
const normalize = (text: string, form: 'NFC' | 'NFKC'): string => {
  if (text.length > maxNormalizedLength || hasTooManyMarks(text)) {
    throw new TextTooCostly('The text is too long, or has too many consecutive combining marks')
  }
  return text.normalize(form)
}

/** @throws TextTooCostly */
export const toNfc = (text: string): string => normalize(text, 'NFC')

/** @throws TextTooCostly */
export const toNfkc = (text: string): string => normalize(text, 'NFKC')

/**
 * The form in which names of tags are compared for uniqueness: ignores case and compatibility forms, but not accents. Computed
 * here rather than in SQL, so that databases with different versions of ICU compare names alike. The final sigma ς becomes σ.
 *
 * @throws TextTooCostly
 */
export const canonicalName = (text: string): string =>
  normalize(text, 'NFKC').toLowerCase().replaceAll('ς', 'σ')

/** The text that stands for a character in searches and orders. `scripts/generate/folding.ts` writes the table. */
export const foldedCharacters: ReadonlyMap<string, string> = new Map(
  Object.entries(foldedGroups).flatMap(([folded, characters]) =>
    Array.from(characters, (character) => [character, folded] as const),
  ),
)

/**
 * Folds text for searches and orders: removes case, accents and other differences within a letter, such as of ß and ss. The
 * database's fold_text() does the same with the same table. Empty for text of combining marks alone.
 *
 * The result is not normalized: what is removed between combining marks can leave a long run of them.
 *
 * @throws TextTooCostly
 */
export const foldSearch = (text: string): string =>
  Array.from(
    normalize(text.replaceAll(halfwidthKana, toFullWidth), 'NFC'),
    (character) => foldedCharacters.get(character) ?? character,
  ).join('')

/** Their voicing marks are letters, which NFC does not compose with the kana before them. */
const halfwidthKana = /[\uff66-\uff9f]/g

export const toFullWidth = (kana: string): string => kana.normalize('NFKC')

/** Whether text has a visible character, other than spaces, controls and fillers such as U+3164. */
export const isVisible = (text: string): boolean =>
  /[^\s\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u.test(text)

/** Whether text can be stored and returned unchanged: no U+0000, no lone surrogate. */
export const isCleanText = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** Text as it can be stored: without U+0000, and with U+FFFD for lone surrogates. */
export const toCleanText = (text: string): string => text.replaceAll('\0', '').toWellFormed()

/** Escapes the characters with a meaning in a LIKE pattern whose escape character is the backslash. */
export const escapeLike = (text: string): string => text.replace(/[\\%_]/g, (character) => `\\${character}`)
