import { newApiToken } from '../auth/api-tokens.ts'
import type { Credentials } from '../auth/credentials.ts'
import { jsonWithSecret, sealForReplay } from '../auth/replayed-secrets.ts'
import { deleteApiToken, deleteUserApiToken, insertApiToken, type NewApiToken } from '../db/api-tokens.ts'
import type { OpContext } from '../db/engine/context.ts'
import type { Created } from '../db/engine/idempotency.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { expectDone, problems } from '../problems/problems.ts'

export interface ApiTokens {
  /**
   * Creates an API token of the caller. The JSON has the member `token`, even when the response is replayed.
   *
   * @throws Problem 400 when the expiry is in the past
   */
  create(
    ctx: OpContext<SessionPrincipal>,
    fields: Pick<NewApiToken, 'name' | 'scopes' | 'expiresAt'>,
  ): Promise<Created>
  /** Revokes an API token of the caller. */
  revoke(ctx: OpContext<SessionPrincipal>, id: string): Promise<void>
  /** Revokes an API token of any user, for an administrator. */
  revokeOfUser(
    ctx: OpContext<SessionPrincipal>,
    token: { readonly userId: string; readonly id: string },
  ): Promise<void>
}

interface Deps {
  readonly credentials: Credentials
  /** Seal the tokens in stored responses. */
  readonly replayKeys: KeyRing
}

export const createApiTokens = ({ credentials, replayKeys }: Deps): ApiTokens => ({
  async create(ctx, fields) {
    const { token, hash } = newApiToken()
    const created = await insertApiToken(ctx, {
      ...fields,
      hash,
      seal: (id) => sealForReplay(replayKeys, token, id),
    })
    if (created === null) throw problems.invalidField('/expires_at', 'must be in the future')
    return { ...created, json: jsonWithSecret(replayKeys, created, { name: 'token', secret: token }) }
  },

  async revoke(ctx, id) {
    expectDone(await deleteApiToken(ctx, id))
    await credentials.forgetApiToken(id)
  },

  async revokeOfUser(ctx, token) {
    expectDone(await deleteUserApiToken(ctx, token))
    await credentials.forgetApiToken(token.id)
  },
})
