import type { Database } from './client.ts'
import { sql } from '../schema/drizzle.ts'
import { statement } from './statement.ts'

/** Milliseconds between rounds. */
const interval = 600_000

const checkpoint = statement('maintenance.checkpoint', {}, {}, () => sql`checkpoint`)

const tables = statement(
  'maintenance.tables',
  {},
  { name: 'text' },
  () => sql`
    select quote_ident(relname) as name from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname`,
)

/** One statement per table, so that requests can run in between. */
const vacuum = async (db: Database): Promise<void> => {
  for (const { name } of await tables(db, {})) await db.run(`vacuum (analyze) ${name}`, [], 'maintenance')
}

/**
 * Runs checkpoints and vacuum on the embedded database, which lacks a server's background processes. Otherwise its WAL and
 * its tables would grow without limit. Uses the shared client, since the database has only one session. Returns a function
 * that stops it and waits for the current round.
 */
export const startEmbeddedMaintenance = (db: Database): (() => Promise<void>) => {
  let running: Promise<unknown> = Promise.resolve()
  const timer = setInterval(() => {
    // A failed round is ignored: the next one does the same work.
    running = checkpoint(db, {})
      .then(() => vacuum(db))
      .catch(() => undefined)
  }, interval)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}
