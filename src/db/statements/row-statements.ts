import { type AnyPgColumn, eq, type PgTable } from '../schema/drizzle.ts'
import { builtStatement } from './built-statement.ts'
import { textOfEmpty } from './empty-results.ts'
import { nameOfStatement, type StatementName } from './statement.ts'

/** Statements about the row of a table with an id. */

type Identified = PgTable & { readonly id: AnyPgColumn }

/** Locks the row. */
export const rowLock = (
  name: StatementName,
  table: Identified,
  strength: 'update' | 'no key update' | 'key share',
) =>
  builtStatement(name, { id: 'uuid' }, (db, p) =>
    db.select({ id: table.id }).from(table).where(eq(table.id, p.id)).for(strength),
  )

/** Deletes the row. */
export const rowDeletion = (name: StatementName, table: Identified) =>
  builtStatement(name, { id: 'uuid' }, (db, p) => db.delete(table).where(eq(table.id, p.id)))

/** The only row of a statement that must have one: a transaction has locked or written it. */
export const expectRow = <Row>(rows: readonly Row[]): Row => {
  const [row] = rows
  if (row === undefined) throw new Error(`${nameOfStatement(textOfEmpty(rows) ?? '')} has no row`)
  return row
}

/** The row of a statement that has at most one; null for none. */
export const firstRow = <Row>([row]: readonly Row[]): Row | null => row ?? null
