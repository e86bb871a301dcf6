import type postgres from 'postgres'
import type { Selection } from '../../../src/db/transfer/read.ts'

/** Rows per FETCH. The largest rows, tasks, have up to 64 KiB. */
const batch = 200

/** The characters that the text format of COPY escapes. The backslash comes first. */
const escaped = [
  ['\\', '\\\\'],
  ['\t', '\\t'],
  ['\n', '\\n'],
  ['\r', '\\r'],
] as const

/** Reads rows as COPY would, of which PGlite holds the whole result in memory. */
export async function* fetchedLines(
  transaction: postgres.TransactionSql,
  { columns, source }: Selection,
): AsyncGenerator<Uint8Array> {
  const values = columns.map((column) =>
    escaped.reduce(
      (value, [from, to]) => `replace(${value}, ${literal(from)}, ${literal(to)})`,
      `(${column})::text`,
    ),
  )
  await transaction.unsafe(
    `declare lines no scroll cursor for
    select array_to_string(array[${values.join(', ')}], ${literal('\t')}, ${literal('\\N')}) || chr(10) as line
    from ${source}`,
  )
  for (;;) {
    const rows = await transaction.unsafe<{ line: string }[]>(`fetch ${batch} from lines`)
    if (rows.length === 0) break
    yield Buffer.from(rows.map(({ line }) => line).join(''))
  }
  await transaction.unsafe('close lines')
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`
