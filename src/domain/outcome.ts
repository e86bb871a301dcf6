/**
 * The outcome of a query on one resource: success, or the first failed check. The contract promises the order of the checks:
 * missing or not visible, forbidden, precondition failed.
 */
export type Outcome<T> = { readonly outcome: 'done'; readonly value: T } | Refusal

export type Refusal = { readonly outcome: SimpleRefusal } | UnknownReference | QuotaExceeded

/** Refusals without further data. */
export const simpleRefusals = [
  'missing',
  'forbidden',
  'reauthentication_required',
  'precondition_failed',
  'start_twice',
  'due_twice',
  'due_at_before_start',
  'due_on_before_start',
  'last_admin',
  'project_archived',
  'parent_elsewhere',
  'parent_cycle',
  'parent_too_deep',
  'too_many_subtasks',
  'access_through_team',
  'email_changed_often',
  'invited_many',
  'address_invited_often',
  'upload_gone',
  'upload_locked',
  'upload_conflict',
] as const

export type SimpleRefusal = (typeof simpleRefusals)[number]

/** The body names a resource that does not exist, is not in the same list, or that the caller cannot see. */
export interface UnknownReference {
  readonly outcome: 'unknown_reference'
  /** JSON Pointer into the body. */
  readonly pointer: string
  readonly kind: 'user' | 'tag' | 'project' | 'section' | 'task'
}

/** A resource with a quota: the total bytes of a user's attachments, or the number of tasks or webhooks that a user owns. */
export type QuotaResource = 'attachment_bytes' | 'tasks' | 'webhooks'

/** The request would exceed a user's quota. */
export interface QuotaExceeded {
  readonly outcome: 'quota_exceeded'
  readonly resource: QuotaResource
  readonly quota: number
  /** Current usage. */
  readonly used: number
  /** The addition by the request, as far as it is known. */
  readonly size: number
}

export const missing: Refusal = { outcome: 'missing' }

export const done = <T>(value: T): Outcome<T> => ({ outcome: 'done', value })

/** The row, or `missing` if there is none that the caller can see. */
export const found = <T>(row: T | null | undefined): Outcome<T> => (row == null ? missing : done(row))
