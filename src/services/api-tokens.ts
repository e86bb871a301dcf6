import { newApiToken } from '../auth/api-tokens.ts'
import type { Credentials } from '../auth/credentials.ts'
import { open, seal } from '../auth/seal.ts'
import { deleteApiToken, deleteUserApiToken, insertApiToken, type NewApiToken } from '../db/api-tokens.ts'
import type { OpContext } from '../db/engine/context.ts'
import type { Created } from '../db/engine/creation.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { expectDone, problems } from '../problems/problems.ts'

export interface ApiTokens {
  /**
   * Creates an API token of the caller. Its JSON has the member `token`, also when it is replayed.
   *
   * @throws Problem 400 when it would have expired already
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
  /** Seal tokens in the answers that are stored for a replay. */
  readonly answerKeys: KeyRing
}

export const createApiTokens = ({ credentials, answerKeys }: Deps): ApiTokens => ({
  async create(ctx, fields) {
    const { token, hash } = newApiToken()
    const created = await insertApiToken(ctx, {
      ...fields,
      hash,
      seal: (id) => seal(answerKeys, Buffer.from(token), id).toString('base64url'),
    })
    if (created === null) throw problems.invalidField('/expires_at', 'must be in the future')
    const json = created.replayed
      ? unsealToken(answerKeys, created)
      : `${created.json.slice(0, -1)},"token":"${token}"}`
    return { ...created, json }
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

/** The JSON of a replayed creation, with the token in place of the sealed one. */
const unsealToken = (answerKeys: KeyRing, { id, json }: Created): string =>
  json.replace(/"sealed_token":"([\w-]*)"\}$/, (_, sealed: string) => {
    // The key that fingerprinted the request is known, and so is the one that sealed the token.
    const opened = open(answerKeys, Buffer.from(sealed, 'base64url'), id)
    if (opened === null) throw new Error('No key opens the token of a replayed creation')
    return `"token":"${opened.plaintext.toString()}"}`
  })
