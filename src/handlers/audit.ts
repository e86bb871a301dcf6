import { selectAuditEvents } from '../db/audit.ts'
import type { Paging } from '../http/paging.ts'
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
      return respond(await selectAuditEvents(ctx, { ...filter, ...times }, request))
    },
  }) satisfies Partial<Handlers>
