import type { Database } from './client.ts'
import { sql } from '../schema/drizzle.ts'
import { statement } from './statement.ts'

/** Milliseconds between two rounds. */
const every = 600_000

const checkpoint = statement('maintenance.checkpoint', {}, {}, () => sql`checkpoint`)

const tables = statement(
  'maintenance.tables',
  {},
  { name: 'text' },
  () => sql`
    select quote_ident(relname) as name from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname`,
)

/** One table at a time, so that requests are answered in between. */
const vacuum = async (db: Database): Promise<void> => {
  for (const { name } of await tables(db, {})) await db.run(`vacuum (analyze) ${name}`, [], 'maintenance')
}

/**
 * Does for the embedded database what a server's background processes do: without checkpoints its log would grow for
 * ever, and without vacuum its tables. Uses the one client, since nobody else may come between its messages.
 * Returns what ends it.
 */
export const keepEmbeddedTidy = (db: Database): (() => Promise<void>) => {
  let running: Promise<unknown> = Promise.resolve()
  const timer = setInterval(() => {
    // The next round makes up for one that fails.
    running = checkpoint(db, {})
      .then(() => vacuum(db))
      .catch(() => undefined)
  }, every)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}
