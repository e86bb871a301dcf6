import type { Database } from './client.ts'
import { sql } from '../schema/drizzle.ts'
import { statement } from './statement.ts'

/** Milliseconds between rounds. */
const interval = 600_000

/** Milliseconds between checks for tables with outdated statistics: that of autovacuum. */
const analyzeInterval = 60_000

const checkpoint = statement('maintenance.checkpoint', {}, {}, () => sql`checkpoint`)

const tables = statement(
  'maintenance.tables',
  {},
  { name: 'text' },
  () => sql`
    select quote_ident(relname) as name from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname`,
)

/**
 * The tables whose statistics autovacuum would consider outdated, if they are small: analyzing 20,000 tasks takes up to 2 s, and the plans
 * for 2,000 rows are already those for more.
 */
const changedTables = statement(
  'maintenance.changed_tables',
  {},
  { name: 'text' },
  () => sql`
    select quote_ident(relname) as name from pg_stat_user_tables
    where schemaname = 'public' and n_mod_since_analyze > 50 + 0.1 * n_live_tup and n_live_tup < 2000
    order by relname`,
)

/** One statement per table, so that requests can run in between. */
const vacuum = async (db: Database): Promise<void> => {
  for (const { name } of await tables(db, {})) await db.run(`vacuum (analyze) ${name}`, [], 'maintenance')
}

/**
 * Updates the statistics of tables that have changed much. Otherwise, the plans for the tables of a new installation remain in use
 * while somebody fills it.
 */
export const analyzeChanged = async (db: Database): Promise<void> => {
  for (const { name } of await changedTables(db, {})) await db.run(`analyze ${name}`, [], 'maintenance')
}

/** Repeats a task. A failed round is ignored: the next one does the same work. Returns a function that stops it. */
const repeat = (milliseconds: number, task: () => Promise<void>): (() => Promise<void>) => {
  let running: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    running = running.then(task).catch(() => undefined)
  }, milliseconds)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}

/**
 * Runs checkpoints, vacuum and analyze on the embedded database, which lacks a server's background processes. Otherwise its WAL and
 * its tables would grow without limit. Uses the shared client, since the database has only one session. Returns a function
 * that stops it and waits for the current round.
 */
export const startEmbeddedMaintenance = (db: Database): (() => Promise<void>) => {
  const stopAnalyzing = repeat(analyzeInterval, () => analyzeChanged(db))
  const stopVacuuming = repeat(interval, async () => {
    await checkpoint(db, {})
    await vacuum(db)
  })
  return async () => {
    await Promise.all([stopAnalyzing(), stopVacuuming()])
  }
}
