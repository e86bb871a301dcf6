import { anyTag } from '../../domain/entity-tags.ts'
import { done, missing, type Outcome, type SimpleRefusal, simpleRefusals } from '../../domain/outcome.ts'
import type { ContextPlaceholders } from './context.ts'
import { type SQL, sql } from '../schema/drizzle.ts'

/** Checks on a row that is visible to the caller. */
export interface Checks {
  readonly allowed: SQL
  /** The ETag of the resource, without quotes; null if it has none. A value of null: the resource does not exist. */
  readonly etag: SQL | null
  /** Whether a resource without an ETag exists, if the operation takes If-None-Match. */
  readonly exists?: SQL
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

/** The outcome of the checks, in the contract's order, with the request's If-Match and If-None-Match. */
export const checkedOutcome = (
  p: Pick<ContextPlaceholders, 'if_match' | 'if_none_match' | 'caller'>,
  checks: Checks,
): SQL => outcomeOfChecks(p, { ...checks, ifMatch: p.if_match })

/** Whether a resource matches requested tags, as in `meetsPreconditions`. */
const matchesTags = (etag: SQL, requested: SQL): SQL =>
  sql`(${etag} is not null and array[${etag}, ${sql.raw(`'${anyTag}'`)}] && ${requested})`

/** Whether the request has `If-None-Match: *`. */
const isCreateOnly = (p: Pick<ContextPlaceholders, 'if_none_match'>): SQL =>
  sql`coalesce(${sql.raw(`'${anyTag}'`)} = any(${p.if_none_match}), false)`

/** The rule of `meetsPreconditions`, as WHEN branches. */
const whenConditionsFail = (
  p: Pick<ContextPlaceholders, 'if_none_match'>,
  { etag, exists, ifMatch }: Pick<Checks, 'etag' | 'exists'> & { readonly ifMatch: SQL },
): SQL => {
  const whenExcluded = (matches: SQL): SQL =>
    sql`when ${p.if_none_match} is not null and ${matches} then 'precondition_failed'`
  if (etag !== null)
    return sql`when ${ifMatch} is not null and not ${matchesTags(etag, ifMatch)} then 'precondition_failed'
      ${whenExcluded(matchesTags(etag, p.if_none_match))}`
  if (exists === undefined) return sql``
  return whenExcluded(sql`${isCreateOnly(p)} and ${exists}`)
}

/** Like `checkedOutcome`, for one item of a batch with its own If-Match: a text array; null accepts any. */
export const outcomeOfChecks = (
  p: Pick<ContextPlaceholders, 'if_none_match' | 'caller'>,
  { allowed, refusals = sql``, ...conditions }: Checks & { readonly ifMatch: SQL },
): SQL => sql`case
  when not (${allowed}) then 'forbidden'
  ${whenConditionsFail(p, conditions)}
  ${refusals}
  else ${setActorAndReturnDone(p)} end`

/** The outcome of a deletion. Missing if its checks passed but another statement has deleted the row meanwhile. */
export const outcomeOfDeletion = (isGone: SQL): SQL =>
  sql`case when outcome = 'done' and ${isGone} then 'missing' else outcome end`

/** The outcome of a creation. It fails `If-None-Match: *` if another request has created the resource since the snapshot of the statement. */
export const outcomeOfCreation = (p: Pick<ContextPlaceholders, 'if_none_match'>, isCreated: SQL): SQL =>
  sql`case when outcome = 'done' and ${isCreateOnly(p)} and not ${isCreated} then 'precondition_failed' else outcome end`

/**
 * The condition under which an upsert changes a row that exists: `on conflict … do update … where`. Checks the request's If-Match
 * and If-None-Match again, because another request may have inserted the row since the snapshot of the statement, which could not
 * lock what it did not see.
 */
export const stillMeetsConditions = (
  p: Pick<ContextPlaceholders, 'if_match' | 'if_none_match'>,
  storedEtag: SQL,
): SQL => sql`(${p.if_match} is null or ${matchesTags(storedEtag, p.if_match)})
  and (${p.if_none_match} is null or not ${matchesTags(storedEtag, p.if_none_match)})`

/** The outcome of an upsert with `stillMeetsConditions`, which writes nothing if the conditions fail then. */
export const outcomeOfUpsert = (isWritten: SQL): SQL =>
  sql`case when outcome = 'done' and not ${isWritten} then 'precondition_failed' else outcome end`

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
