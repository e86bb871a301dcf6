import { type AuditFilter, selectAuditEvents } from '../../db/activity/audit.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { SessionPrincipal } from '../../domain/shared/permissions.ts'
import type { OpContext } from '../shared/context.ts'

/** A page of the audit trail, for an administrator. */
export const listAuditEvents = (
  ctx: OpContext<SessionPrincipal>,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page> => selectAuditEvents(ctx, filter, page)
