import type { components } from '../../../generated/openapi.ts'

export type AuditAction = components['schemas']['AuditAction']
export type AuditEvent = components['schemas']['AuditEvent']

/** The kinds of private content. Each has an action for reads that only the role of an administrator allows. */
export const contentKinds = ['task', 'comment', 'attachment', 'project'] as const

/** The parameters of paths that identify private content or whose it is. In a path with several, the first counts. */
export const contentParameters = ['comment_id', 'attach_id', 'task_id', 'project_id', 'user_id'] as const

/** The private content that a response shows. */
export interface ShownContent {
  readonly kind: (typeof contentKinds)[number]
  readonly parameter: (typeof contentParameters)[number]
}

/** The same for one response: the value of the parameter, and the resources that the response embeds. */
export interface AuditedContent extends ShownContent {
  readonly id: string
  readonly expand: readonly string[]
}

/** The origin of a request, from its connection and headers. */
export interface Client {
  /** IP address; X-Forwarded-For counts only from a trusted proxy. */
  readonly address: string
  readonly userAgent: string | null
  readonly requestId: string
}

/** The origin of a command or a job, on the machine of the service. `requestId` identifies it in the audit trail. */
export const localClient = (requestId: string): Client => ({ address: '', userAgent: null, requestId })

/** Longer User-Agent headers are truncated. In UTF-16 code units. */
export const maxUserAgentLength = 512
