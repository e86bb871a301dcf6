/**
 * How a query on one resource ended: it was done, or the first check that failed, in the order that the contract promises:
 * missing or not visible, forbidden, precondition failed.
 */
export type Outcome<T> = { readonly outcome: 'done'; readonly value: T } | Refusal

export type Refusal = { readonly outcome: SimpleRefusal } | UnknownReference | QuotaExceeded

/** Refusals that their name says all about. */
export const simpleRefusals = [
  'missing',
  'forbidden',
  'reauthentication_required',
  'precondition_failed',
  'due_before_start',
  'last_admin',
  'email_changed_often',
  'upload_gone',
  'upload_locked',
  'upload_conflict',
] as const

export type SimpleRefusal = (typeof simpleRefusals)[number]

/** The body names a user or a tag that does not exist, or that the caller cannot see. */
export interface UnknownReference {
  readonly outcome: 'unknown_reference'
  /** JSON Pointer into the body. */
  readonly pointer: string
  readonly kind: 'user' | 'tag'
}

/** What a quota limits: the bytes of all files that a user attached, or the number of tasks that a user owns. */
export type QuotaResource = 'attachment_bytes' | 'tasks'

/** A user would have more than their quota allows. */
export interface QuotaExceeded {
  readonly outcome: 'quota_exceeded'
  readonly resource: QuotaResource
  readonly quota: number
  /** What the user has already. */
  readonly used: number
  /** What the request adds, as far as that is known. */
  readonly size: number
}

export const missing: Refusal = { outcome: 'missing' }

export const done = <T>(value: T): Outcome<T> => ({ outcome: 'done', value })

/** A row that was found, or that there is none that the caller can see. */
export const found = <T>(row: T | null | undefined): Outcome<T> => (row == null ? missing : done(row))
