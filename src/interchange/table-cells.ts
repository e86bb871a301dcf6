/** Cells of CSV files that spreadsheets would take for formulas get an apostrophe in front, which `readCell` takes off. */

// Full-width characters too: some spreadsheets take them for the narrow ones.
const formulaStart = /^[=+\-@＝＋－＠\t\r]/
const guarded = /^'[=+\-@＝＋－＠\t\r']/

/** A cell that starts with an apostrophe before one of these characters gets another one, so that nothing is taken off it. */
export const writeCell = (text: string): string =>
  formulaStart.test(text) || guarded.test(text) ? `'${text}` : text

/** Without U+0000 too, which the database does not store: the first cells are kept as they are read, to be shown. */
export const readCell = (text: string): string => {
  const stored = text.replaceAll('\0', '')
  return guarded.test(stored) ? stored.slice(1) : stored
}
