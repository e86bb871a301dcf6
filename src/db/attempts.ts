import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { deletionInBatches } from './engine/batches.ts'
import { onlyRow, type Placeholders, statement } from './engine/statement.ts'

/**
 * Attempts to prove who one is: a password, a code. Each is counted as failed before it is tried, in a transaction of
 * its own, so that no crash, no cancelled request and no race gets a free one; a success clears the count. From the
 * fifth failure on, the next attempt has to wait: 5 seconds, then twice as long each time, up to 15 minutes.
 */

/** Failures that cost nothing. */
const freeFailures = 5
const firstDelay = 5
const longestDelay = 900

/** Failures are forgotten this long after the last one. */
const memory = sql.raw(`interval '1 day'`)

/** The parameter of a statement that counts or clears attempts: whom they are counted for. */
export const attemptParameter = { attempt_key: 'bytes' } as const

type AttemptPlaceholders = Placeholders<typeof attemptParameter>

/** A part of a statement, to be named `counted`, with a row if the attempt may be made now. */
export const countAttempt = (p: AttemptPlaceholders): SQL => {
  const failures = sql`case when attempt.last_failed_at < now() - ${memory} then 1 else attempt.failures + 1 end`
  // The exponent is bounded, since two to the power of a large count is not a number any more.
  const delay = sql`least(${sql.raw(String(longestDelay))}, ${sql.raw(String(firstDelay))} * 2 ^ least(${failures} - ${sql.raw(String(freeFailures))}, 20))`
  return sql`
    insert into attempts as attempt (key, failures, last_failed_at, delayed_until)
    values (${p.attempt_key}, 1, now(), '-infinity')
    on conflict (key) do update set failures = ${failures}, last_failed_at = now(),
      delayed_until = case when ${failures} < ${sql.raw(String(freeFailures))} then '-infinity'
        else now() + ${delay} * interval '1 second' end
    where attempt.delayed_until <= now()
    returning *`
}

/**
 * The column `wait` of a statement with `counted`: seconds until the attempt may be made, 0 if it may be made now. One that
 * raced with another sees the row from before it, perhaps with no delay (from which no time can be subtracted) or no row.
 */
export const waitColumn = (p: AttemptPlaceholders): SQL => sql`
  case when exists (select from counted) then 0
  else coalesce((
    select greatest(1, ceil(extract(epoch from delayed_until) - extract(epoch from now())))::int
    from attempts where key = ${p.attempt_key}
  ), 1) end as wait`

/** A part of a statement that clears the count, if `when` has a row. */
export const clearAttempts = (p: AttemptPlaceholders, when: SQL): SQL =>
  sql`delete from attempts using ${when} where attempts.key = ${p.attempt_key}`

const count = statement(
  attemptParameter,
  { wait: 'int' },
  (p) => sql`with counted as (${countAttempt(p)}) select ${waitColumn(p)}`,
)

/** Counts an attempt. Answers with the seconds for which there may be none, and 0 if it may be made. */
export const insertAttempt = async (db: Database, key: Buffer): Promise<number> => {
  const row = onlyRow(await count(db, { attempt_key: key }))
  if (row === null) throw new Error('Counting answers with a row')
  return row.wait
}

/** Forgets failures that no longer count. */
export const removeOldAttempts = deletionInBatches(
  {},
  'attempts',
  () => sql`last_failed_at < now() - ${memory} and delayed_until <= now()`,
)
