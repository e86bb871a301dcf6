import type { ServerConnection } from '../engine/connection.ts'
import { migrate, readSchema, type Schema } from '../engine/migrate.ts'
import type { TableRows } from './catalog.ts'
import { type RowCounts, countLines, expectCounts } from './counts.ts'
import { type ReadLines, readTables } from './read.ts'
import { writeTables, type WrittenTable } from './write.ts'

interface CopyOptions {
  /** The schema of the copy; that of this version unless another is given. */
  readonly schema?: Schema
  /** How rows are read; by COPY unless another way is given. */
  readonly lines?: ReadLines
}

/**
 * Copies all rows of one database into another, which must be empty. The first is migrated before. The copy is one transaction: either all rows are copied, with equal row counts in each table, or none.
 *
 * @throws NotEmpty, DatabaseUnavailable
 */
export const copyDatabase = async (
  from: ServerConnection,
  to: ServerConnection,
  { schema = readSchema(), lines }: CopyOptions = {},
): Promise<readonly WrittenTable[]> => {
  await migrate(from, { schema })
  const write = (tables: readonly TableRows[]) => {
    const read: RowCounts = new Map()
    return writeTables(to, {
      schema,
      tables: tables.map((table) => countLines(table, read)),
      verify: async (written) => expectCounts(read, written),
    })
  }
  return readTables(from, write, lines)
}
