import { builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { retention } from '../schema/tables.ts'
import { expectRow } from '../statements/row-statements.ts'

/**
 * The clock that retention periods and reminders are measured against: the clock of the database, less a jump that nobody has confirmed.
 * Every instance looks at it before its first job runs, and every ten seconds. When it has moved on by more than `maxSkipped` since the
 * last look, it may be wrong, and what is deleted or sent then is not taken back when it is corrected. That time is unconfirmed: it does
 * not count until an operator confirms it, and shrinks when the clock goes back. When the clock goes back, the unconfirmed time is negative
 * until that is accepted, so that a clock that goes forward again is right. The first look at a new database has nothing to compare with.
 */

/** A longer time since the last look must be confirmed. Long enough for a service that is stopped over a weekend. */
const maxSkipped = sql.raw(`interval '3 days'`)

/**
 * Smaller steps back are corrections of a running clock, and the start times of concurrent transactions: `now()` of a statement that
 * waited for a row can be before the time that the row got meanwhile.
 */
export const minStepBack = sql.raw(`interval '1 minute'`)

/** Several times the interval of the looks. Bounds how far a jump can be followed before the next look. */
const maxUnseen = sql.raw(`interval '1 minute'`)

/** The time of the last look, as if no unconfirmed jump had happened, and what can follow until the next look. */
const latestSeen: SQL = sql`${retention.seen_at} - ${retention.unconfirmed} + ${maxUnseen}`

/** The current time of retention. A subquery, which a statement evaluates once. */
export const retentionTime: SQL = sql`
  coalesce((select least(now() - greatest(${retention.unconfirmed}, '0'), ${latestSeen}) from retention), now())`

/**
 * The present time for what the service wrote at `time`: what is from before an unconfirmed jump of the clock does not see the jump, and
 * what is from after it does.
 */
export const presentFor = (time: SQLWrapper): SQL => sql`case
  when ${time} > (select coalesce(${retention.skipped_from} + ${maxUnseen}, ${latestSeen}) from retention) then now()
  else ${retentionTime} end`

/**
 * How long ago the service set `time` by the clock of the database. A jump of the clock since then counts only when it is confirmed, so
 * that it ends nothing early.
 */
export const passedSince = (time: SQLWrapper): SQL => sql`greatest(${presentFor(time)} - ${time}, '0')`

const look = builtStatement('retention.look', {}, (db) => {
  const passed = sql`now() - ${retention.seen_at}`
  const isSetBack = sql`${passed} < -${minStepBack}`
  const isAhead = sql`${passed} > ${maxSkipped}`
  const moved = sql`(${retention.unconfirmed} + case when ${isSetBack} or ${isAhead} then ${passed} else '0' end)`
  return db
    .insert(retention)
    .values({ singleton: true, seen_at: sql`now()`, unconfirmed: '0' })
    .onConflictDoUpdate({
      target: retention.singleton,
      set: {
        seen_at: sql`now()`,
        unconfirmed: sql`case when ${moved} between -${maxSkipped} and ${maxSkipped} then '0' else ${moved} end`,
        skipped_from: sql`case when ${moved} > ${maxSkipped}
          then coalesce(${retention.skipped_from}, ${retention.seen_at} - ${retention.unconfirmed}) end`,
        set_back_at: sql`case when ${isSetBack} then now() when not ${isAhead} then ${retention.set_back_at} end`,
      },
    })
    .returning({
      unconfirmed: sql<number>`floor(extract(epoch from greatest(${retention.unconfirmed}, '0')))::float8`,
    })
})

/** Looks at the clock. Returns the unconfirmed time in seconds. */
export const lookAtClock = async (db: Database): Promise<number> => expectRow(await look(db, {})).unconfirmed

const milliseconds = { duration: 'int' } as const

// By the looks: a clock that has gone forward since the last one is not known to be right.
const wasSetBackFor = (duration: SQLWrapper): SQL =>
  sql`${retention.seen_at} - ${retention.set_back_at} >= ${duration} * interval '1 millisecond'`

const selectSetBack = builtStatement('retention.select_set_back', milliseconds, (db, p) =>
  db.select({ set_back_at: retention.set_back_at }).from(retention).where(wasSetBackFor(p.duration)),
)

const acceptSetBack = builtStatement('retention.accept_set_back', milliseconds, (db, p) =>
  db
    .update(retention)
    .set({ set_back_at: null, unconfirmed: sql`greatest(${retention.unconfirmed}, '0')` })
    .where(wasSetBackFor(p.duration)),
)

/**
 * Once the clock has been set back for `duration` milliseconds, runs `correct` until it returns 0, and accepts the clock as right: rows
 * that were locked are corrected in the next run.
 */
export const afterSetBack = async (
  db: Database,
  duration: number,
  correct: () => Promise<number>,
): Promise<void> => {
  if ((await selectSetBack(db, { duration })).length === 0) return
  if ((await correct()) === 0) await acceptSetBack(db, { duration })
}

const confirm = builtStatement('retention.confirm', {}, (db) =>
  db.update(retention).set({ seen_at: sql`now()`, unconfirmed: '0', skipped_from: null, set_back_at: null }),
)

/** Confirms that the clock is right: no time is unconfirmed any more. */
export const confirmClock = async (db: Database): Promise<void> => {
  await confirm(db, {})
}
