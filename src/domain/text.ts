/** The longest run of combining marks that text may have: that of the Stream-Safe Text Format (UAX #15, section 13). */
export const maxMarksInRow = 30

/** The longest text that is normalized, in UTF-16 code units. */
export const maxNormalizedLength = 16_384

/**
 * Normalization sorts each run of combining marks, in V8 in quadratic time. The last two characters are not marks, but NFKC
 * and NFKD turn them into one.
 */
const marksInRow = /[\p{M}\uff9e\uff9f]{1,31}/gu

/** Whether text has a longer run of combining marks than any language uses. Takes linear time. */
export const hasTooManyMarks = (text: string): boolean => {
  for (const [run] of text.matchAll(marksInRow)) {
    if (run.length > maxMarksInRow && Array.from(run).length > maxMarksInRow) return true
  }
  return false
}

/** Text that would take too long to normalize. Requests with such text are refused before; this is the second line. */
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

/**
 * Folds text so that spellings that differ only in case or compatibility form are equal on both databases. The lower case of
 * a sigma depends on whether it ends a word, which a substring does not know.
 *
 * @throws TextTooCostly
 */
export const foldText = (text: string): string => lowerCase(normalize(text, 'NFKC'))

/**
 * Folds text for a search, which ignores accents as well. The database's fold_text() does the same.
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
 * The form in which email addresses are stored and compared. The local part is in NFKC_Casefold (Unicode 16, section 3.13).
 * The domain is mapped as UTS #46 does, which tells ß from ss and ς from σ: these are domains of different owners, and
 * mail must not go to the wrong one.
 *
 * @throws TextTooCostly
 */
export const canonicalEmail = (text: string): string => {
  const address = normalize(text, 'NFKC').trim()
  const at = address.lastIndexOf('@')
  const local = foldCase(address.slice(0, at + 1))
  const domain = address
    .slice(at + 1)
    .replaceAll('Σ', 'σ')
    .toLowerCase()
  return `${local}${domain}`.normalize('NFKC')
}

/**
 * Full case folding: ß becomes ss, ς becomes σ. The way through the upper case merges lower-case forms of the same letter;
 * it must not merge the dotless i with i.
 */
const foldCase = (text: string): string =>
  text.replaceAll(/[^ı]+/g, (part) => lowerCase(part.toLowerCase().toUpperCase()))

/** Whether text has a character that one can see: not only spaces, controls and fillers such as U+3164. */
export const isVisible = (text: string): boolean =>
  /[^\s\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u.test(text)

/** Whether text can be stored and returned unchanged: no U+0000, no lone surrogate. */
export const isCleanText = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** Escapes the characters with a meaning in a LIKE pattern whose escape character is the backslash. */
export const escapeLike = (text: string): string => text.replace(/[\\%_]/g, (character) => `\\${character}`)
