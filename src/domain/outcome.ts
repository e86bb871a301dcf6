/**
 * How a statement on one resource ended: it was done, or the first check that failed in the order that the contract
 * promises: not there (or not to be seen), not allowed, not the version that the caller expected.
 */
export type Outcome<T> = { readonly outcome: 'done'; readonly value: T } | Refusal

export interface Refusal {
  readonly outcome:
    | 'missing'
    | 'forbidden'
    | 'unproven'
    | 'stale'
    | 'last_admin'
    | 'email_changed_often'
    | 'upload_gone'
    | 'upload_locked'
    | 'upload_conflict'
}

export const missing: Refusal = { outcome: 'missing' }

/** Wraps a value that was found or changed. */
export const done = <T>(value: T): Outcome<T> => ({ outcome: 'done', value })

/** The row that a statement found, or that there is none to be seen. */
export const found = <T>(row: T | null): Outcome<T> => (row === null ? missing : done(row))
