import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import type { Paging } from '../http/paging.ts'
import { type ApiTokens, listApiTokens, listUserApiTokens } from '../services/accounts/api-tokens.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly apiTokens: ApiTokens
}

/** The operations of the contract's tag `api-tokens`. */
export const apiTokenHandlers = ({ paging, apiTokens }: Deps) =>
  ({
    async listApiTokens(ctx, { path, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listApiTokens(ctx, request))
    },

    async createApiToken(ctx, { body }) {
      const { name, scopes, expires_at: expiresAt = null } = body
      const { id, json, replayed } = await apiTokens.create(ctx, { name, scopes, expiresAt })
      return {
        status: 201,
        headers: { location: `/auth/tokens/${id}` },
        body: jsonText<components['schemas']['ApiTokenWithSecret']>(json),
        replayed,
      }
    },

    async revokeApiToken(ctx, { params }) {
      await apiTokens.revoke(ctx, params.token_id)
      return { status: 204 }
    },

    async listUserApiTokens(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listUserApiTokens(ctx, params.user_id, request))
    },

    async revokeUserApiToken(ctx, { params }) {
      await apiTokens.revokeOfUser(ctx, { userId: params.user_id, id: params.token_id })
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
