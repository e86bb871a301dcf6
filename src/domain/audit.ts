import type { components } from '../../generated/openapi.ts'

/** What the audit trail tells of. */
export type AuditAction = components['schemas']['AuditAction']

/** Where a request came from, as far as its connection and its header tell. */
export interface Client {
  /** IP address; X-Forwarded-For counts only from a trusted proxy. */
  readonly address: string
  readonly userAgent: string | null
  readonly requestId: string
}

/** The length to which a client's name for itself is kept. */
export const maxUserAgentLength = 512
