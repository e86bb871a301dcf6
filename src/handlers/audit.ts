import type { Handlers } from '../contract/operation.ts'
import { selectAuditEvents } from '../db/audit.ts'
import type { Paging } from '../http/paging.ts'

interface Deps {
  readonly paging: Paging
}

/** The operations of the contract's tag `audit`. */
export const auditHandlers = ({ paging }: Deps) =>
  ({
    async listAuditEvents(ctx, { path, query }) {
      const { filter, request, answer } = paging(path, ctx.principal, query)
      return answer(await selectAuditEvents(ctx, filter, request))
    },
  }) satisfies Partial<Handlers>
