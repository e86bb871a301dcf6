import { deletionInBatches } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { expectRow } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import { minStepBack, retentionTime } from '../shared/retention.ts'
import { eq, sql } from '../schema/drizzle.ts'
import { attempts } from '../schema/tables.ts'

/**
 * Attempts to prove an identity with a password or a code. Each is counted as failed before it is checked, in a separate
 * transaction, so that no crash, cancelled request or race yields a free attempt; a success deletes the count. From the fifth
 * failure on, the next attempt is delayed: 5 seconds, then twice as long each time, up to 15 minutes.
 */

const freeFailures = 5
/** Seconds. */
const firstDelay = sql.raw('5')
const maxDelay = sql.raw('900')

/** Time after the last failure at which the count expires. */
const memory = sql.raw(`interval '1 day'`)

const attemptParameter = { attempt_key: 'bytes' } as const
const countParameters = { ...attemptParameter, free: 'int' } as const

// An attempt with a delay that is longer than the longest may be made: it was set before the clock was set back. Of two concurrent
// attempts, the second sees the row as it was before the first: it may have no delay (`-infinity`, which is not subtracted), or not exist.
const count = statement('attempts.count', countParameters, { wait: 'int' }, (p) => {
  const failures = sql`case when ${attempts.last_failed_at} < now() - ${memory} then 1 else ${attempts.failures} + 1 end`
  // Bounds the exponent, since two to the power of a large count is out of range.
  const delay = sql`least(${maxDelay}, ${firstDelay} * 2 ^ least(${failures} - ${p.free}, 20))`
  const counted = builder
    .insert(attempts)
    .values({
      key: p.attempt_key,
      failures: sql`1`,
      last_failed_at: sql`now()`,
      delayed_until: sql`'-infinity'`,
    })
    .onConflictDoUpdate({
      target: attempts.key,
      set: {
        failures,
        last_failed_at: sql`now()`,
        delayed_until: sql`
          case when ${failures} < ${p.free} then '-infinity' else now() + ${delay} * interval '1 second' end`,
      },
      setWhere: sql`${attempts.delayed_until} <= now() or ${attempts.delayed_until} > now() + ${maxDelay} * interval '1 second' + ${minStepBack}`,
    })
    .returning({ key: attempts.key })
  return sql`
    with counted as ${counted}
    select case when exists (select from counted) then 0
      else coalesce((
        select greatest(1, ceil(extract(epoch from delayed_until) - extract(epoch from now())))::int
        from attempts where key = ${p.attempt_key}
      ), 1) end as wait`
})

/** Counts an attempt. Returns the seconds until it may be made, 0 for now. The next one is delayed from `free` failures on. */
export const insertAttempt = async (
  { db }: Pick<StatementContext, 'db'>,
  key: Buffer,
  free = freeFailures,
): Promise<number> => {
  const row = expectRow(await count(db, { attempt_key: key, free }))
  return row.wait
}

const takeBack = builtStatement('attempts.take_back', countParameters, (db, p) =>
  db
    .update(attempts)
    .set({
      failures: sql`${attempts.failures} - 1`,
      delayed_until: sql`case when ${attempts.failures} <= ${p.free} then '-infinity' else ${attempts.delayed_until} end`,
    })
    .where(eq(attempts.key, p.attempt_key)),
)

/** Takes an attempt back that has neither failed nor succeeded. */
export const takeBackAttempt = async (
  { db }: Pick<StatementContext, 'db'>,
  key: Buffer,
  free: number,
): Promise<void> => {
  await takeBack(db, { attempt_key: key, free })
}

const forget = builtStatement('attempts.forget', attemptParameter, (db, p) =>
  db.delete(attempts).where(eq(attempts.key, p.attempt_key)),
)

/** Clears the count after a success. */
export const forgetAttempts = async ({ db }: TransactionContext, key: Buffer): Promise<void> => {
  await forget(db, { attempt_key: key })
}

/** Deletes counts that have expired. */
export const removeOldAttempts = deletionInBatches('attempts.delete_old', {
  parameters: {},
  table: attempts,
  condition: () => sql`last_failed_at < ${retentionTime} - ${memory} and delayed_until <= now()`,
})
