/**
 * Folds text so that two spellings that differ in case or compatibility form only are equal on every database. The
 * lower case of a sigma depends on whether a word ends there, which a part of a text does not know.
 */
export const foldText = (text: string): string => text.normalize('NFKC').toLowerCase().replaceAll('ς', 'σ')

/** Whether a text can be stored and told again as it is: no U+0000, no lone surrogate. */
export const isCleanText = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** Folds text for a search, which takes no notice of accents either. The database's fold_text() does the same. */
export const foldSearch = (text: string): string =>
  foldText(text.normalize('NFKD').replaceAll(/[\u0300-\u036f]/g, ''))

/** Escapes what has a meaning in a LIKE pattern, for a pattern that uses the backslash as its escape. */
export const escapeLike = (text: string): string => text.replace(/[\\%_]/g, (character) => `\\${character}`)
