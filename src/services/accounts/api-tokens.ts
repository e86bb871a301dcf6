import { newApiToken } from '../../auth/api-tokens.ts'
import type { Credentials } from '../../auth/credentials.ts'
import { jsonWithSealed, jsonWithSecret, sealForReplay } from '../../auth/replayed-secrets.ts'
import { lockOwnAccount } from '../../db/accounts/lock.ts'
import {
  insertApiToken,
  lockApiToken,
  type NewApiToken,
  removeApiToken,
  type RevocableApiToken,
  selectApiTokens,
  selectUserApiTokens,
  viewApiToken,
} from '../../db/accounts/api-tokens.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { selectUser } from '../../db/accounts/users.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { SessionPrincipal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, thenForget, transaction } from '../shared/context.ts'
import { expectFound, expectMay, expectSeen, expectSignedIn } from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

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
    const id = newId()
    const sealed = sealForReplay(replayKeys, token, id)
    const created = await idempotent(
      ctx,
      async (tx) => {
        const account = expectSignedIn(await lockOwnAccount(tx))
        const { view } = await pipeline(tx.db, {
          apiToken: () => insertApiToken(tx, id, account, { ...fields, hash }),
          audit: () => recordAudit(tx, 'api_token.created', { userId: account.id, tokenId: id }),
          view: () => viewApiToken(tx, id),
        })
        // By the clock of the database.
        if (view.is_expired) throw problems.invalidField('/expires_at', 'must be in the future')
        return { json: view.json, replay: jsonWithSealed(view.json, 'token', sealed) }
      },
      id,
    )
    return { ...created, json: jsonWithSecret(replayKeys, created, { name: 'token', secret: token }) }
  },

  async revoke(ctx, id) {
    await thenForget(
      transaction(ctx, async (tx) => {
        const own = await lockApiToken(tx, { id, userId: tx.principal.userId })
        const token = expectSeen('api_token.see', own)
        await revoke(tx, expectMay('api_token.revoke', token))
      }),
      () => credentials.forgetApiToken(id),
    )
  },

  async revokeOfUser(ctx, path) {
    await thenForget(
      transaction(ctx, async (tx) => {
        const token = expectSeen('api_token.see_any', await lockApiToken(tx, path))
        await revoke(tx, expectMay('api_token.revoke_any', token))
      }),
      () => credentials.forgetApiToken(path.id),
    )
  },
})

const revoke = async (tx: TransactionContext<SessionPrincipal>, token: RevocableApiToken): Promise<void> => {
  const { id: tokenId, userId } = token
  await pipeline(tx.db, {
    apiToken: () => removeApiToken(tx, token),
    audit: () => recordAudit(tx, 'api_token.revoked', { userId, tokenId }),
  })
}

/** A page of the caller's API tokens. */
export const listApiTokens = (ctx: OpContext<SessionPrincipal>, page: PageRequest): Promise<Page> =>
  selectApiTokens(ctx, page)

/** A page of a user's API tokens, for an administrator. @throws Problem 404 */
export const listUserApiTokens = async (
  ctx: OpContext<SessionPrincipal>,
  userId: string,
  page: PageRequest,
): Promise<Page> => {
  expectFound(await selectUser(ctx, userId))
  return selectUserApiTokens(ctx, userId, page)
}
