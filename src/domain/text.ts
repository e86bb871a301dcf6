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

/** Text that would take too long to normalize. Request validation refuses such text earlier; this is defence in depth. */
export class TextTooCostly extends Error {
  override readonly name = 'TextTooCostly'
}

/** The only caller of `String.prototype.normalize` on text of unknown size. */
const normalize = (text: string, form: 'NFC' | 'NFKC' | 'NFKD'): string => {
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
 * Folds case and compatibility forms here rather than in SQL, so that the embedded database and a server compare text alike.
 * The final sigma ς becomes σ: it depends on the end of the word, which a substring search cannot see.
 *
 * @throws TextTooCostly
 */
export const foldText = (text: string): string => lowerCase(normalize(text, 'NFKC'))

/**
 * Folds text for search: also removes accents. The database's fold_text() does the same.
 *
 * @throws TextTooCostly
 */
export const foldSearch = (text: string): string =>
  lowerCase(
    normalize(text, 'NFKD')
      .replaceAll(/[\u0300-\u036f]/g, '')
      .normalize('NFKC'),
  )

const lowerCase = (text: string): string => text.toLowerCase().replaceAll('ς', 'σ')

/**
 * Full case folding: ß becomes ss, ς becomes σ. Conversion to upper case first merges lower-case forms of the same letter.
 * The dotless i is excluded, because it must not become i.
 */
export const foldCase = (text: string): string =>
  text.replaceAll(/[^ı]+/g, (part) => lowerCase(part.toLowerCase().toUpperCase()))

/** Whether text has a visible character, other than spaces, controls and fillers such as U+3164. */
export const isVisible = (text: string): boolean =>
  /[^\s\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u.test(text)

/** Whether text can be stored and returned unchanged: no U+0000, no lone surrogate. */
export const isCleanText = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** Escapes the characters with a meaning in a LIKE pattern whose escape character is the backslash. */
export const escapeLike = (text: string): string => text.replace(/[\\%_]/g, (character) => `\\${character}`)
