import { builtStatement } from './built-statement.ts'
import type { Database } from './client.ts'
import { type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { retention } from '../schema/tables.ts'
import { expectRow } from './row-statements.ts'

/**
 * The clock that retention periods are measured against: the clock of the database, less a jump that nobody has confirmed. When it has
 * moved on by more than `maxSkipped` since the service last looked, it may be wrong, and rows that are deleted do not come back when it
 * is corrected. That time is then unconfirmed: it does not count until an operator confirms it, and shrinks when the clock goes back. The
 * first look at a new database has nothing to compare with.
 */

/** A longer time since the last look must be confirmed. Long enough for a service that is stopped over a weekend. */
const maxSkipped = sql.raw(`interval '3 days'`)

/**
 * Smaller steps back are corrections of a running clock, and the start times of concurrent transactions: `now()` of a statement that
 * waited for a row can be before the time that the row got meanwhile.
 */
export const minStepBack = sql.raw(`interval '1 minute'`)

/** Twice the interval of the jobs that delete. Bounds what they delete if the clock jumps after they have looked at it. */
const maxUnseen = sql.raw(`interval '2 hours'`)

/** The current time of retention. A subquery, which a statement evaluates once. */
export const retentionTime: SQL = sql`
  coalesce((select least(now(), ${retention.seen_at} + ${maxUnseen}) - ${retention.unconfirmed} from retention), now())`

/** The latest time that the service can have set before the clock jumped, if it has. */
const latestBeforeJump: SQL = sql`
  (select coalesce(${retention.skipped_from}, ${retention.seen_at}) + ${maxUnseen} from retention)`

/**
 * The present time for what the service wrote at `time`: what is from before an unconfirmed jump of the clock does not see the jump, and
 * what is from after it does.
 */
export const presentFor = (time: SQLWrapper): SQL =>
  sql`case when ${time} > ${latestBeforeJump} then now() else ${retentionTime} end`

/**
 * How long ago the service set `time` by the clock of the database. A jump of the clock since then counts only when it is confirmed, so
 * that it ends nothing early. A time from after the jump is compared with now(): the time of retention stays before it for as long as the
 * jump was.
 */
export const passedSince = (time: SQLWrapper): SQL =>
  sql`(case when ${time} > ${latestBeforeJump} then now() else greatest(${retentionTime}, ${time}) end - ${time})`

const look = builtStatement('retention.look', {}, (db) => {
  const passed = sql`now() - ${retention.seen_at}`
  const skipped = sql`(${retention.unconfirmed}
    + case when ${passed} > ${maxSkipped} or ${passed} < -${minStepBack} then ${passed} else '0' end)`
  return db
    .insert(retention)
    .values({ singleton: true, seen_at: sql`now()`, unconfirmed: '0' })
    .onConflictDoUpdate({
      target: retention.singleton,
      set: {
        seen_at: sql`now()`,
        unconfirmed: sql`case when ${skipped} > ${maxSkipped} then ${skipped} else '0' end`,
        skipped_from: sql`case when ${skipped} > ${maxSkipped} then coalesce(${retention.skipped_from}, ${retention.seen_at}) end`,
      },
    })
    .returning({ unconfirmed: sql<number>`floor(extract(epoch from ${retention.unconfirmed}))::float8` })
})

/** Looks at the clock; every job that deletes old rows does so first. Returns the unconfirmed time in seconds. */
export const lookAtClock = async (db: Database): Promise<number> => {
  const row = expectRow(await look(db, {}))
  return row.unconfirmed
}

const confirm = builtStatement('retention.confirm', {}, (db) =>
  db.update(retention).set({ seen_at: sql`now()`, unconfirmed: '0', skipped_from: null }),
)

/** Confirms that the clock is right: no time is unconfirmed any more. */
export const confirmClock = async (db: Database): Promise<void> => {
  await confirm(db, {})
}
