import type { Credentials } from '../auth/credentials.ts'
import type { Database } from '../db/engine/client.ts'
import { deleteSession, selectSessions } from '../db/sessions.ts'
import type { Paging } from '../http/paging.ts'
import type { Handlers } from '../contract/operation.ts'
import { expectDone } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly credentials: Credentials
}

/** The operations of the contract's tag `sessions`. */
export const sessionHandlers = ({ db, paging, credentials }: Deps) =>
  ({
    async listSessions({ path, principal, query }) {
      const { request, answer } = paging(path, principal, query)
      return answer(await selectSessions(db, principal, request))
    },

    async revokeSession({ params, principal, client }) {
      expectDone(await deleteSession(db, principal, client, params.session_id))
      await credentials.forgetSession(params.session_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
