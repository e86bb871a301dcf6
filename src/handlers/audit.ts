import type { Handlers } from '../contract/operation.ts'
import { selectAuditEvents } from '../db/audit.ts'
import { instantOf } from '../domain/time-zones.ts'
import type { Paging } from '../http/paging.ts'

interface Deps {
  readonly paging: Paging
}

/** The operations of the contract's tag `audit`. */
export const auditHandlers = ({ paging }: Deps) =>
  ({
    async listAuditEvents(ctx, { path, query }) {
      const { filter, request, answer } = paging(path, ctx.principal, query)
      const { created_after: after, created_before: before, ...others } = filter
      const { timeZone } = ctx.principal
      const times = {
        ...(after !== undefined && { created_after: instantOf(after, timeZone) }),
        ...(before !== undefined && { created_before: instantOf(before, timeZone) }),
      }
      return answer(await selectAuditEvents(ctx, { ...others, ...times }, request))
    },
  }) satisfies Partial<Handlers>
