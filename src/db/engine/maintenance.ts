import type { Database } from './client.ts'
import { sql } from '../schema/drizzle.ts'
import { statement } from './statement.ts'

/** Milliseconds between rounds. */
const interval = 600_000

/** Milliseconds between two looks at how many rows have changed. */
const lookInterval = 2_000

const checkpoint = statement('maintenance.checkpoint', {}, {}, () => sql`checkpoint`)

const tables = statement(
  'maintenance.tables',
  {},
  { name: 'text', has_rows: 'bool', changes: 'int8', rows: 'int8', columns: 'text', vectors: 'text?' },
  () => sql`
    select quote_ident(relname) as name, pg_relation_size(relid) > 0 as has_rows, n_mod_since_analyze as changes, n_live_tup as rows,
      list.columns, list.vectors
    from pg_stat_user_tables cross join lateral (
      select string_agg(quote_ident(attname), ', ') filter (where atttypid <> 'tsvector'::regtype) as columns,
        string_agg(quote_ident(attname), ', ') filter (where atttypid = 'tsvector'::regtype) as vectors
      from pg_attribute where attrelid = relid and attnum > 0 and not attisdropped
    ) list where schemaname = 'public' order by relname`,
)

/** One statement per table, so that requests can run in between. */
const vacuum = async (db: Database): Promise<void> => {
  for (const { name } of await tables(db, {})) await db.run(`vacuum ${name}`, [], 'maintenance')
}

/**
 * Sizes of samples, as `default_statistics_target`: of 3,000 rows, and of 600 where each has hundreds of words. With PostgreSQL's own 100, 20,000
 * tasks take up to 2 s; in these two pieces, each takes less than 100 ms, however many rows there are.
 */
const usualSample = 10
const sampleOfVectors = 2

const analyze = async (db: Database, name: string, columns: string, sample: number): Promise<void> => {
  await db.run(`set default_statistics_target = ${sample}`, [], 'once')
  await db.run(`analyze ${name} (${columns})`, [], 'maintenance')
}

/**
 * Returns a function that updates the statistics of tables of which a fifth has changed since the last call that did, and at first
 * of all tables. Prepared statements are then planned anew: otherwise the plans for the tables of a new installation remain in use
 * while somebody fills it.
 */
export const createAnalyzeChanged = (db: Database): (() => Promise<void>) => {
  // PostgreSQL does not reset its count of changes when it analyzes some columns only.
  const analyzedAt = new Map<string, number>()
  return async () => {
    for (const { name, has_rows, changes, rows, columns, vectors } of await tables(db, {})) {
      const before = analyzedAt.get(name)
      // After a crash, PostgreSQL counts from 0 again.
      const added = before === undefined || changes < before ? changes : changes - before
      if (!has_rows || (before !== undefined && added <= 50 + rows / 5)) continue
      await analyze(db, name, columns, usualSample)
      if (vectors !== null) await analyze(db, name, vectors, sampleOfVectors)
      analyzedAt.set(name, changes)
    }
  }
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
  const stopAnalyzing = repeat(lookInterval, createAnalyzeChanged(db))
  const stopVacuuming = repeat(interval, async () => {
    await checkpoint(db, {})
    await vacuum(db)
  })
  return async () => {
    await Promise.all([stopAnalyzing(), stopVacuuming()])
  }
}
