/** Which statement a result without rows is of, for the errors of those who expected one. */

const statements = new WeakMap<readonly unknown[], string>()

/** The same rows, of which the text of the statement is known if there are none. */
export const resultOf = <Rows extends readonly unknown[]>(text: string, rows: Rows): Rows => {
  if (rows.length === 0) statements.set(rows, text)
  return rows
}

/** The text of the statement whose result this is. */
export const textOfEmpty = (rows: readonly unknown[]): string | undefined => statements.get(rows)
