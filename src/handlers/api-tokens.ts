import type { components } from '../../generated/openapi.ts'
import { newApiToken } from '../auth/api-tokens.ts'
import type { Credentials } from '../auth/credentials.ts'
import {
  deleteApiToken,
  deleteUserApiToken,
  insertApiToken,
  selectApiTokens,
  selectUserApiTokens,
} from '../db/api-tokens.ts'
import type { Database } from '../db/client.ts'
import { selectUser } from '../db/users.ts'
import { jsonText } from '../domain/json-text.ts'
import type { Paging } from '../http/paging.ts'
import type { Handlers } from '../operation.ts'
import { expectDone, problems } from '../problems.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly credentials: Credentials
}

type NewApiToken = components['schemas']['NewApiToken']

/** The operations of the contract's tag `api-tokens`. */
export const apiTokenHandlers = ({ db, paging, credentials }: Deps) =>
  ({
    async listApiTokens({ path, principal, query }) {
      const { request, answer } = paging(path, principal, query)
      return answer(await selectApiTokens(db, principal, request))
    },

    async createApiToken({ body, principal, client }) {
      const { name, scopes, expires_at: expiresAt = null } = body
      const { token, hash } = newApiToken()
      const row = await insertApiToken(db, principal, client, { name, scopes, expiresAt, hash })
      if (row === null) throw problems.invalidField('/expires_at', 'must be in the future')
      return {
        status: 201,
        headers: { location: `/auth/tokens/${row.id}` },
        body: jsonText<NewApiToken>(`${row.json.slice(0, -1)},"token":"${token}"}`),
      }
    },

    async revokeApiToken({ params, principal, client }) {
      expectDone(await deleteApiToken(db, principal, client, params.token_id))
      await credentials.forgetApiToken(params.token_id)
      return { status: 204 }
    },

    async listUserApiTokens({ path, params, principal, query }) {
      const { request, answer } = paging(path, principal, query)
      expectDone(await selectUser(db, principal, params.user_id))
      return answer(await selectUserApiTokens(db, principal, params.user_id, request))
    },

    async revokeUserApiToken({ params, principal, client }) {
      const tokenId = params.token_id.toLowerCase()
      expectDone(await deleteUserApiToken(db, principal, client, params.user_id, tokenId))
      await credentials.forgetApiToken(tokenId)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
