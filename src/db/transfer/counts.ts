import type { TableRows } from './catalog.ts'
import type { WrittenTable } from './write.ts'

/** Numbers of rows by table. */
export type RowCounts = Map<string, number>

/** Fewer or more rows were written than read. */
export class RowsLost extends Error {
  override readonly name = 'RowsLost'
}

const newline = 0x0a

/** A table whose rows are counted in `counts` while they are read: the text format of COPY escapes line breaks in values. */
export const countLines = (table: TableRows, counts: RowCounts): TableRows => ({
  ...table,
  async *rows() {
    let lines = 0
    for await (const chunk of table.rows()) {
      for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, at + 1)) lines += 1
      yield chunk
    }
    counts.set(table.name, lines)
  },
})

/** @throws RowsLost */
export const expectCounts = (
  expected: ReadonlyMap<string, number>,
  written: readonly WrittenTable[],
): void => {
  for (const { table, rows } of written)
    if (expected.get(table) !== rows)
      throw new RowsLost(`The table ${table} has ${rows} rows instead of ${expected.get(table) ?? 0}`)
}
