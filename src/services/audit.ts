import { type AuditFilter, selectAuditEvents } from '../db/audit.ts'
import type { Page, PageRequest } from '../domain/pages.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import type { OpContext } from './context.ts'

/** A page of the audit trail, for an administrator. */
export const listAuditEvents = (
  ctx: OpContext<SessionPrincipal>,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page> => selectAuditEvents(ctx, filter, page)
