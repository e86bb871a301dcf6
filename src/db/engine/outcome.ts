import { done, missing, type Outcome, type SimpleRefusal, simpleRefusals } from '../../domain/outcome.ts'
import type { ContextPlaceholders } from './context.ts'
import { type SQL, sql } from '../schema/drizzle.ts'

/** The checks on a row that the caller can see. */
interface Checks {
  readonly allowed: SQL
  /** The row's entity tag, without its quotes; null when the row has none. */
  readonly etag: SQL | null
  /** Whether the caller has proven recently who they are, where that is required. */
  readonly authenticated?: SQL
  /** Further refusals, as WHEN branches. */
  readonly refusals?: SQL
}

/** The outcome of the checks, in the order that the contract promises; If-Match is that of the request. */
export const checkedOutcome = (p: Pick<ContextPlaceholders, 'if_match'>, checks: Checks): SQL =>
  outcomeOfChecks({ ...checks, ifMatch: p.if_match })

/** The same for one item of a request, with an If-Match of its own: a text array, null for any. */
export const outcomeOfChecks = ({
  allowed,
  etag,
  ifMatch,
  authenticated = sql`true`,
  refusals = sql``,
}: Checks & { readonly ifMatch: SQL }): SQL => sql`case
  when not (${allowed}) then 'forbidden'
  when not (${authenticated}) then 'reauthentication_required'
  ${etag === null ? sql`` : sql`when ${ifMatch} is not null and not (${etag} = any(${ifMatch})) then 'precondition_failed'`}
  ${refusals}
  else 'done' end`

/** Reads the column `outcome`; no row means that there is none that the caller can see. */
export const readOutcome = <R extends { readonly outcome: string }>(
  row: R | null | undefined,
): Outcome<R> => {
  if (row == null) return missing
  if (row.outcome === 'done') return done(row)
  if (isSimpleRefusal(row.outcome)) return { outcome: row.outcome }
  throw new TypeError(`There is no outcome ${row.outcome}`)
}

const isSimpleRefusal = (outcome: string): outcome is SimpleRefusal =>
  simpleRefusals.some((one) => one === outcome)
