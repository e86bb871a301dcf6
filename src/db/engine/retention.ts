import type { Database } from './client.ts'
import { statement } from './statement.ts'
import { assignments, columnsOf, insertion } from '../schema/columns.ts'
import { type SQL, sql } from '../schema/drizzle.ts'

/**
 * The clock that retention periods are measured against: the clock of the database, less a jump that nobody has confirmed. When it has
 * moved on by more than `maxSkipped` since the service last looked, it may be wrong, and rows that are deleted do not come back when it
 * is corrected. Retention then stays behind by that time, until the clock goes back or an operator confirms it. The first look at a
 * new database has nothing to compare with.
 */

const ofRetention = columnsOf<'retention'>(sql.raw('retention'))

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
  coalesce((select least(now(), ${ofRetention.seen_at} + ${maxUnseen}) - ${ofRetention.behind} from retention), now())`

const look = statement('retention.look', {}, { behind: 'int8' }, () => {
  const { columns, values } = insertion<'retention'>({
    singleton: sql`true`,
    seen_at: sql`now()`,
    behind: sql`'0'`,
  })
  const passed = sql`now() - ${ofRetention.seen_at}`
  const skipped = sql`(${ofRetention.behind}
    + case when ${passed} > ${maxSkipped} or ${passed} < -${minStepBack} then ${passed} else '0' end)`
  const looked = assignments<'retention'>({
    seen_at: sql`now()`,
    behind: sql`case when ${skipped} > ${maxSkipped} then ${skipped} else '0' end`,
  })
  return sql`
    insert into retention (${columns}) values (${values})
    on conflict (singleton) do update set ${looked}
    returning extract(epoch from ${ofRetention.behind})::bigint as behind`
})

/** Looks at the clock; every job that deletes old rows does so first. Returns by how many seconds retention is behind the clock. */
export const lookAtClock = async (db: Database): Promise<number> => {
  const [row] = await look(db, {})
  if (row === undefined) throw new Error('Looking at the clock returned no row')
  return row.behind
}

const confirm = statement(
  'retention.confirm',
  {},
  {},
  () => sql`update retention set ${assignments<'retention'>({ seen_at: sql`now()`, behind: sql`'0'` })}`,
)

/** Confirms that the clock is right: retention is no longer behind. */
export const confirmClock = async (db: Database): Promise<void> => {
  await confirm(db, {})
}
