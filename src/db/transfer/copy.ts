import type { ConnectionOptions, ServerConnection } from '../engine/connection.ts'
import { migrate, readSchema, type Schema } from '../engine/migrate.ts'
import { type RowCounts, countLines, expectCounts } from './counts.ts'
import { readTables } from './read.ts'
import { writeTables, type WrittenTable } from './write.ts'

/**
 * Copies all rows of one database into another, which must be empty. The first is migrated before, to the schema of this version unless
 * another is given. The copy is one transaction: either all rows are copied, with equal row counts in each table, or none.
 *
 * @throws NotEmpty, DatabaseUnavailable
 */
export const copyDatabase = async (
  from: ConnectionOptions,
  to: ServerConnection,
  schema: Schema = readSchema(),
): Promise<readonly WrittenTable[]> => {
  await migrate(from, { schema })
  return readTables(from, (tables) => {
    const read: RowCounts = new Map()
    return writeTables(to, {
      schema,
      tables: tables.map((table) => countLines(table, read)),
      verify: async (written) => expectCounts(read, written),
    })
  })
}
