import type { Paging } from '../http/paging.ts'
import { listSessions, type Sessions } from '../services/accounts/sessions.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly sessions: Sessions
}

/** The operations of the contract's tag `sessions`. */
export const sessionHandlers = ({ paging, sessions }: Deps) =>
  ({
    async listSessions(ctx, { path, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listSessions(ctx, request))
    },

    async revokeSession(ctx, { params }) {
      await sessions.end(ctx, params.session_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
