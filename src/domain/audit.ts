import type { components } from '../../generated/openapi.ts'

export type AuditAction = components['schemas']['AuditAction']

/** The origin of a request, from its connection and headers. */
export interface Client {
  /** IP address; X-Forwarded-For counts only from a trusted proxy. */
  readonly address: string
  readonly userAgent: string | null
  readonly requestId: string
}

/** Longer User-Agent headers are truncated. In UTF-16 code units. */
export const maxUserAgentLength = 512
