import { lockCaller } from '../../db/accounts/caller-lock.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import {
  lockKey,
  selectResponse,
  type StoredResponse,
  storeResponse,
} from '../../db/shared/idempotency-keys.ts'
import type { Created, Idempotency } from '../../domain/shared/idempotency.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, type OpTransaction, transaction } from './context.ts'

/** The response of a request. */
interface Response {
  readonly json: string
  /** What is stored for a replay, if it differs: a secret is sealed in it. */
  readonly replay?: string
}

/**
 * Runs `work`, which creates a resource, as a transaction, once per Idempotency-Key: its response is stored with it. A repeated
 * request gets that response, and a concurrent one waits for it. `id` is that of the resource. The caller is locked first.
 *
 * @throws CallerGone when the caller was disabled or deleted since they were authenticated
 * @throws Problem 422 when the key was used with a different request
 */
export const idempotent = <P extends Principal>(
  ctx: OpContext<P>,
  work: (tx: OpTransaction<P>, id: string) => Promise<Response>,
  id: string = newId(),
): Promise<Created> => {
  const { idempotency: key } = ctx
  return transaction<P, Created>(ctx, async (tx) => {
    if (key === null) {
      // Sent first. The work sends what it needs then, or nothing.
      const locked = lockCaller(tx)
      // oxlint-disable-next-line eslint/no-restricted-properties -- The work is not one statement.
      const [{ json }] = await Promise.all([work(tx, id), locked])
      return { id, json, replayed: false }
    }
    const { stored } = await pipeline(tx.db, {
      key: () => lockKey(tx, key),
      caller: () => lockCaller(tx),
      stored: () => selectResponse(tx, key),
    })
    if (stored !== null) return replayOf(key, stored)
    const { json, replay = json } = await work(tx, id)
    // Not sent with the commit: the driver repeats a statement whose plan is outdated, which could then be after a rollback.
    await storeResponse(tx, key, { id, json: replay })
    return { id, json, replayed: false }
  })
}

/**
 * The stored response to an earlier request with the same key. For a request whose work before its transaction is costly.
 *
 * @throws Problem 422 when the key was used with a different request
 */
export const findReplay = async (ctx: OpContext): Promise<Created | null> => {
  const { idempotency: key } = ctx
  const stored = key && (await selectResponse(ctx, key))
  return key && stored && replayOf(key, stored)
}

/** Whether the response to an earlier request with the same key is stored, also if it was a different request. */
export const hasReplay = async (ctx: OpContext): Promise<boolean> => {
  const { idempotency: key } = ctx
  return key !== null && (await selectResponse(ctx, key)) !== null
}

const replayOf = (
  { isFingerprint }: Idempotency,
  { fingerprint, resource_id: id, body: json }: StoredResponse,
): Created => {
  if (!isFingerprint(fingerprint)) throw problems.idempotencyKeyReused()
  return { id, json, replayed: true }
}

/** Whether the request may be a retry, which gets the stored response. */
export const mayBeRepeat = ({ idempotency }: OpContext): boolean => idempotency !== null

/** The same context without an Idempotency-Key: its response is not stored. */
export const withoutKey = <P extends Principal | null>(ctx: OpContext<P>): OpContext<P> => ({
  ...ctx,
  idempotency: null,
})

/** The same context with this request content. A form's content is known only after it has been received. */
export const withContent = <C extends OpContext>(ctx: C, content: unknown): C =>
  ctx.idempotency === null ? ctx : { ...ctx, idempotency: ctx.idempotency.withContent(content) }
