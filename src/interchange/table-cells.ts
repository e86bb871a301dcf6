/** Cells of CSV files that spreadsheets would take for formulas get an apostrophe in front, which `readCell` takes off. */

// Full-width characters too: some spreadsheets take them for the narrow ones.
const formulaStart = /^[=+\-@＝＋－＠\t\r]/
const guarded = /^'[=+\-@＝＋－＠\t\r']/

/** A cell that starts with an apostrophe before one of these characters gets another one, so that nothing is taken off it. */
export const writeCell = (text: string): string =>
  formulaStart.test(text) || guarded.test(text) ? `'${text}` : text

export const readCell = (text: string): string => (guarded.test(text) ? text.slice(1) : text)
