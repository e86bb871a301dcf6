import type { components } from '../../generated/openapi.ts'
import { newApiToken } from '../auth/api-tokens.ts'
import type { Credentials } from '../auth/credentials.ts'
import { open, seal } from '../auth/seal.ts'
import {
  deleteApiToken,
  deleteUserApiToken,
  insertApiToken,
  selectApiTokens,
  selectUserApiTokens,
} from '../db/api-tokens.ts'
import type { Database } from '../db/engine/client.ts'
import type { Created } from '../db/engine/idempotency.ts'
import { selectUser } from '../db/users.ts'
import { jsonText } from '../contract/json-text.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { Paging } from '../http/paging.ts'
import type { Handlers } from '../contract/operation.ts'
import { expectDone, problems } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly credentials: Credentials
  /** Seal what a repeated creation is answered with. */
  readonly answerKeys: KeyRing
}

type NewApiToken = components['schemas']['NewApiToken']

/** The operations of the contract's tag `api-tokens`. */
export const apiTokenHandlers = ({ db, paging, credentials, answerKeys }: Deps) =>
  ({
    async listApiTokens({ path, principal, query }) {
      const { request, answer } = paging(path, principal, query)
      return answer(await selectApiTokens(db, principal, request))
    },

    async createApiToken({ body, principal, client, idempotency }) {
      const { name, scopes, expires_at: expiresAt = null } = body
      const { token, hash } = newApiToken()
      const fields = { name, scopes, expiresAt, hash }
      const sealToken = (id: string) => seal(answerKeys, Buffer.from(token), id).toString('base64url')
      const row = await insertApiToken(db, principal, client, fields, sealToken, idempotency)
      if (row === null) throw problems.invalidField('/expires_at', 'must be in the future')
      const json = row.replayed
        ? unsealToken(answerKeys, row)
        : `${row.json.slice(0, -1)},"token":"${token}"}`
      return {
        status: 201,
        headers: { location: `/auth/tokens/${row.id}` },
        body: jsonText<NewApiToken>(json),
        replayed: row.replayed,
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

/** The JSON of a replayed creation, with the token in the place of the sealed one. */
const unsealToken = (answerKeys: KeyRing, { id, json }: Created): string =>
  json.replace(/"sealed_token":"([\w-]*)"\}$/, (_, sealed: string) => {
    // The key that fingerprinted the request is known, so the one that sealed the token is.
    const opened = open(answerKeys, Buffer.from(sealed, 'base64url'), id)
    if (opened === null) throw new Error('No key opens the token of a replayed creation')
    return `"token":"${opened.plaintext.toString()}"}`
  })
