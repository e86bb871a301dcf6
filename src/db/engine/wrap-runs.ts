import type { Database } from './client.ts'
import type { Runner } from './transaction.ts'

/** The database with `wrap` around each statement, also around those of its transactions. */
export const wrapRuns = (db: Database, wrap: (run: Runner['run']) => Runner['run']): Database => ({
  ...db,
  run: wrap(db.run),
  transaction: (body, actor) =>
    db.transaction((transaction) => body({ ...transaction, run: wrap(transaction.run) }), actor),
})
