import { parse } from 'csv-parse'
import { parse as parseAtOnce } from 'csv-parse/sync'
import { pipeline } from 'node:stream/promises'
import { toCleanText } from '../domain/shared/text.ts'
import { type CsvMapping, delimiters } from './import-file.ts'
import { readCell } from './table-cells.ts'
import { decoded } from './text-encoding.ts'

/** The rows of CSV files, as a spreadsheet numbers them. */

/** Characters. A longer row is most often a quote that does not end. */
const maxRow = 1024 ** 2

/** The only errors that are left of the parser, which cannot read on after them. */
const unreadable = `The row has a quote that does not end, or more than ${maxRow} characters. What follows is not read.`

export interface Row {
  readonly number: number
  readonly cells: readonly string[]
  /** Why there are no cells; null if there are. */
  readonly problem: string | null
}

export type TableForm = Pick<CsvMapping, 'delimiter' | 'encoding'>

const replacement = '\ufffd'

export const hasBrokenText = ({ cells }: Row): boolean => cells.some((cell) => cell.includes(replacement))

export async function* rowsOf(
  chunks: AsyncIterable<Buffer>,
  { delimiter, encoding }: TableForm,
): AsyncGenerator<Row, void> {
  let isOver = false
  const readable = async function* (): AsyncGenerator<string, void> {
    for await (const text of decoded(chunks, encoding)) {
      if (isOver) return
      yield text
    }
  }
  const parser = parse({
    delimiter,
    max_record_size: maxRow,
    relax_column_count: true,
    relax_quotes: true,
    skip_records_with_error: true,
    on_skip: () => void (isOver = true),
  })
  const feeding = pipeline(readable, parser)
  // It is awaited after the rows.
  feeding.catch(() => undefined)
  let number = 0
  for await (const cells of parser as AsyncIterable<string[]>) {
    number += 1
    yield { number, cells: cells.map(readCell), problem: null }
  }
  await feeding
  if (isOver) yield { number: number + 1, cells: [], problem: unreadable }
}

/** The first rows of a text that may end within a row. They are stored to be shown, so they are without U+0000. */
export const headRows = (text: string, delimiter: string, limit: number): readonly (readonly string[])[] => {
  try {
    const options = { delimiter, relax_column_count: true, relax_quotes: true, to: limit } as const
    const rows = parseAtOnce(text, { ...options, skip_records_with_error: true })
    return rows.map((row) => row.map((cell) => readCell(toCleanText(cell))))
  } catch {
    return []
  }
}

/** The delimiter by which most rows have the same number of cells. */
export const guessDelimiter = (text: string): CsvMapping['delimiter'] => {
  const score = (delimiter: string): number => {
    const widths = Map.groupBy(headRows(text, delimiter, 50), ({ length }) => length)
    return Math.max(0, ...[...widths].map(([width, rows]) => (width < 2 ? 0 : width * rows.length)))
  }
  return delimiters.reduce((best, other) => (score(other) > score(best) ? other : best))
}
