import type { Database } from '../engine/client.ts'
import { type PgTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import type { Parameters, Placeholders, Values } from './parameters.ts'
import { statement, type StatementName } from './statement.ts'
import type { Runner } from '../engine/transaction.ts'

/** Repeats a step until it returns 0 or `stop` is aborted. Returns the sum. */
export const untilNone = async (step: () => Promise<number>, stop: AbortSignal): Promise<number> => {
  for (let total = 0; ;) {
    const count = stop.aborted ? 0 : await step()
    if (count === 0) return total
    total += count
  }
}

/**
 * A statement that runs `change`, a data-modifying statement with RETURNING, and counts its rows. `prepare` has common table expressions
 * for it.
 */
export const countingStatement = <P extends Parameters>(
  name: StatementName,
  parameters: P,
  change: (p: Placeholders<P>) => SQLWrapper,
  prepare?: (p: Placeholders<P>) => SQL,
): ((db: Runner, values: Values<P>) => Promise<number>) => {
  const run = statement(
    name,
    parameters,
    { changed: 'int8' },
    (p) =>
      sql`with ${prepare === undefined ? sql`` : sql`${prepare(p)}, `}changed as (${change(p).getSQL()}) select count(*) as changed from changed`,
  )
  return async (db, values) => {
    const [row] = await run(db, values)
    return row?.changed ?? 0
  }
}

/** Limits `condition` to a batch of up to `limit` rows. Rows locked by another transaction are skipped. */
export const batchOf = (table: PgTable, condition: SQL, limit: number): SQL => sql`ctid = any(array(
  select ctid from ${table} where ${condition} limit ${sql.raw(String(limit))} for update skip locked))`

interface Deletion<P extends Parameters> {
  readonly parameters: P
  readonly table: PgTable
  readonly condition: (p: Placeholders<P>) => SQL
  /** Rows per statement. */
  readonly limit?: number
}

/** Deletes up to `limit` rows of a table that meet a condition, and counts them. */
export const deletionOfBatch = <P extends Parameters>(
  name: StatementName,
  { parameters, table, condition, limit = 500 }: Deletion<P>,
): ((db: Database, values: Values<P>) => Promise<number>) =>
  countingStatement(
    name,
    parameters,
    (p) => sql`delete from ${table} where ${batchOf(table, condition(p), limit)} returning 1`,
  )

/**
 * Deletes the rows of a table that meet a condition, `limit` per statement, so that no statement holds row
 * locks for long. Stops between two statements when `stop` is aborted.
 */
export const deletionInBatches = <P extends Parameters>(
  name: StatementName,
  deletion: Deletion<P>,
): ((db: Database, values: Values<P>, stop: AbortSignal) => Promise<number>) => {
  const remove = deletionOfBatch(name, deletion)
  return (db, values, stop) => untilNone(() => remove(db, values), stop)
}
