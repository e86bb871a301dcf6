import type { Paging } from '../http/paging.ts'
import { listAuditEvents } from '../services/activity/audit.ts'
import { createdTimes } from './created-times.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

/** The operations of the contract's tag `audit`. */
export const auditHandlers = ({ paging }: Deps) =>
  ({
    async listAuditEvents(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      const times = createdTimes(filter, ctx.principal.timeZone)
      return respond(await listAuditEvents(ctx, { ...filter, ...times }, request))
    },
  }) satisfies Partial<Handlers>
