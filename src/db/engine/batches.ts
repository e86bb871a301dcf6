import type { Database } from './client.ts'
import { type SQL, sql } from './drizzle.ts'
import { onlyRow, type Parameters, type Placeholders, statement, type Values } from './statement.ts'

/** Repeats a step until it finds nothing more to do, or until it is to stop. */
export const untilNone = async (step: () => Promise<number>, stop?: AbortSignal): Promise<number> => {
  for (let total = 0; ;) {
    const count = stop?.aborted === true ? 0 : await step()
    if (count === 0) return total
    total += count
  }
}

/** A statement that counts the rows that `change`, a data-modifying statement with RETURNING, changes. */
export const countingStatement = <P extends Parameters>(
  parameters: P,
  change: (p: Placeholders<P>) => SQL,
): ((db: Database, values: Values<P>) => Promise<number>) => {
  const run = statement(
    parameters,
    { changed: 'int8' },
    (p) => sql`with changed as (${change(p)}) select count(*) as changed from changed`,
  )
  return async (db, values) => onlyRow(await run(db, values))?.changed ?? 0
}

/** A condition: so many rows of a table that meet `condition`. Rows that another transaction has locked are left out. */
export const batchOf = (table: string, condition: SQL, limit: number): SQL => {
  const name = sql.raw(table)
  return sql`ctid = any(array(
    select ctid from ${name} where ${condition} limit ${sql.raw(String(limit))} for update skip locked))`
}

/** Deletes so many rows of a table that meet a condition, and counts them. */
export const deletionOfBatch = <P extends Parameters>(
  parameters: P,
  table: string,
  condition: (p: Placeholders<P>) => SQL,
  limit: number,
): ((db: Database, values: Values<P>) => Promise<number>) =>
  countingStatement(
    parameters,
    (p) => sql`delete from ${sql.raw(table)} where ${batchOf(table, condition(p), limit)} returning 1`,
  )

/**
 * Deletes the rows of a table that meet a condition, so many per statement: no statement holds the embedded database, or
 * the locks of its rows, for long.
 */
export const deletionInBatches = <P extends Parameters>(
  parameters: P,
  table: string,
  condition: (p: Placeholders<P>) => SQL,
  limit = 500,
): ((db: Database, values: Values<P>) => Promise<number>) => {
  const remove = deletionOfBatch(parameters, table, condition, limit)
  return (db, values) => untilNone(() => remove(db, values))
}
