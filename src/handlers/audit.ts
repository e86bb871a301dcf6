import { selectAuditEvents } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import type { Paging } from '../http/paging.ts'
import type { Handlers } from '../contract/operation.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
}

/** The operations of the contract's tag `audit`. */
export const auditHandlers = ({ db, paging }: Deps) =>
  ({
    async listAuditEvents({ path, principal, query }) {
      const { filter, request, answer } = paging(path, principal, query)
      return answer(await selectAuditEvents(db, principal, filter, request))
    },
  }) satisfies Partial<Handlers>
