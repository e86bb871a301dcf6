import { done, missing, type Outcome, type Refusal } from '../../domain/outcome.ts'
import { type SQL, sql } from './drizzle.ts'

/** The parameter of a statement that honours If-Match: the ETags that will do, null when any will. */
export const ifMatchParameter = { if_match: 'text[]?' } as const

/**
 * The outcome of the checks on a row that the caller sees, in the order that the contract promises. `otherwise` holds
 * further refusals, as WHEN branches; `proven` is false when the caller has to prove first who they are.
 */
export const checkedOutcome = (
  allowed: SQL,
  etag: SQL,
  ifMatch: SQL,
  otherwise: SQL = sql``,
  proven: SQL = sql`true`,
): SQL => sql`case
  when not (${allowed}) then 'forbidden'
  when not (${proven}) then 'unproven'
  when ${ifMatch} is not null and not (${etag} = any(${ifMatch})) then 'stale'
  ${otherwise}
  else 'done' end`

/** Reads a row's `outcome`; no row means that there is nothing, or nothing that the caller sees. */
export const readOutcome = <R extends { readonly outcome: string }>(row: R | null): Outcome<R> => {
  if (row === null) return missing
  if (row.outcome === 'done') return done(row)
  if (isRefusal(row.outcome)) return { outcome: row.outcome }
  throw new TypeError(`There is no outcome ${row.outcome}`)
}

const refusals: Readonly<Record<Refusal['outcome'], true>> = {
  missing: true,
  forbidden: true,
  unproven: true,
  email_changed_often: true,
  stale: true,
  last_admin: true,
  upload_gone: true,
  upload_locked: true,
  upload_conflict: true,
}

const isRefusal = (outcome: string): outcome is Refusal['outcome'] => Object.hasOwn(refusals, outcome)
