/**
 * The outcome of a query on one resource: success, or the first failed check. The contract promises the order of the checks:
 * missing or not visible, forbidden, precondition failed.
 */
export type Outcome<T> = { readonly outcome: 'done'; readonly value: T } | Refusal

export type Refusal = { readonly outcome: 'missing' | 'forbidden' }

/** The body names a resource that does not exist, is not in the same list, or that the caller cannot see. */
export interface UnknownReference {
  /** JSON Pointer into the body. */
  readonly pointer: string
  readonly kind: 'user' | 'tag' | 'project' | 'section' | 'task'
}

/** A resource with a quota: the total bytes of a user's attachments, or the number of tasks or webhooks that a user owns. */
export type QuotaResource = 'attachment_bytes' | 'tasks' | 'webhooks'

/** The request would exceed a user's quota. */
export interface QuotaExceeded {
  readonly resource: QuotaResource
  readonly quota: number
  /** Current usage. */
  readonly used: number
  /** The addition by the request, as far as it is known. */
  readonly size: number
}

export const missing: Refusal = { outcome: 'missing' }

export const done = <T>(value: T): Outcome<T> => ({ outcome: 'done', value })

/** The row of a query on one resource, or `missing` if there is none that the caller can see. */
export const found = <T>([row]: readonly T[]): Outcome<T> => (row === undefined ? missing : done(row))
