import { done, missing, type Outcome, type SimpleRefusal, simpleRefusals } from '../../domain/outcome.ts'
import type { ContextPlaceholders } from './context.ts'
import { type SQL, sql } from '../schema/drizzle.ts'

/** Checks on a row that is visible to the caller. */
export interface Checks {
  readonly allowed: SQL
  /** The row's ETag, without quotes; null if the row has none. A value of null matches no If-Match. */
  readonly etag: SQL | null
  /** Whether the caller has authenticated recently, where required. */
  readonly authenticated?: SQL
  /** Further refusals, as WHEN branches. */
  readonly refusals?: SQL
}

/**
 * The outcome `done`, with a side effect: evaluating it makes the caller the actor of the events that triggers record later in the
 * transaction. So a write must depend on it, which makes PostgreSQL evaluate it first: by `outcome = 'done'` in its condition, where
 * this is the last branch of the outcome, or by this expression itself.
 */
export const setActorAndReturnDone = (p: Pick<ContextPlaceholders, 'caller'>): SQL =>
  sql`done_by(${p.caller})`

/** The outcome of the checks, in the contract's order, with the request's If-Match. */
export const checkedOutcome = (p: Pick<ContextPlaceholders, 'if_match' | 'caller'>, checks: Checks): SQL =>
  outcomeOfChecks(p, { ...checks, ifMatch: p.if_match })

/** The same for one item of a batch, with its own If-Match: a text array; null accepts any. */
export const outcomeOfChecks = (
  p: Pick<ContextPlaceholders, 'caller'>,
  { allowed, etag, ifMatch, authenticated = sql`true`, refusals = sql`` }: Checks & { readonly ifMatch: SQL },
): SQL => sql`case
  when not (${allowed}) then 'forbidden'
  when not (${authenticated}) then 'reauthentication_required'
  ${etag === null ? sql`` : sql`when ${ifMatch} is not null and (${etag} = any(${ifMatch})) is not true then 'precondition_failed'`}
  ${refusals}
  else ${setActorAndReturnDone(p)} end`

/** The outcome of a deletion. Missing if its checks passed but another statement has deleted the row meanwhile. */
export const outcomeOfDeletion = (isGone: SQL): SQL =>
  sql`case when outcome = 'done' and ${isGone} then 'missing' else outcome end`

/** Reads the column `outcome`. No row: the resource does not exist or is not visible to the caller. */
export const readOutcome = <R extends { readonly outcome: string }>(
  row: R | null | undefined,
): Outcome<R> => {
  if (row == null) return missing
  if (row.outcome === 'done') return done(row)
  if (isSimpleRefusal(row.outcome)) return { outcome: row.outcome }
  throw new TypeError(`There is no outcome ${row.outcome}`)
}

interface ChangedRow {
  readonly json: string | null
  readonly version: number | null
}

/** The row as a statement has changed it. Missing if the row was deleted concurrently: its checks passed, but nothing changed. */
export const readChangedRow = <R extends ChangedRow>(
  checked: Outcome<R>,
): Outcome<R & { readonly json: string; readonly version: number }> => {
  if (checked.outcome !== 'done') return checked
  const row = checked.value
  const { json, version } = row
  return json === null || version === null ? missing : done({ ...row, json, version })
}

const isSimpleRefusal = (outcome: string): outcome is SimpleRefusal =>
  simpleRefusals.some((one) => one === outcome)
