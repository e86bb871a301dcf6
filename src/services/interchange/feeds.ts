import { newFeedToken } from '../../auth/opaque-tokens.ts'
import { jsonWithSealed, jsonWithSecret, sealForReplay } from '../../auth/replayed-secrets.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  type ChangeableFeed,
  countOwnFeeds,
  type FeedPatch,
  type FeedRow,
  insertFeed,
  lockFeed,
  type NewFeed,
  replaceToken,
  revokeFeed,
  selectFeed,
  selectFeeds,
  updateFields,
  viewFeed,
} from '../../db/interchange/feeds.ts'
import { readCaller } from '../../db/accounts/users.ts'
import { changedFields } from '../../domain/activity/changes.ts'
import { maxFeeds } from '../../domain/shared/feeds.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { BearerPrincipal } from '../../domain/shared/permissions.ts'
import { calendarLists } from '../../domain/tasks/filter.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, type OpTransaction, transaction } from '../shared/context.ts'
import { expectFound, expectMatch, expectMay, expectProven, expectSeen } from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

export interface Feeds {
  /**
   * Creates a feed of the caller.
   *
   * @throws Problem 400 when the filter is invalid, 403, 413 or 422
   */
  create(ctx: OpContext<BearerPrincipal>, feed: NewFeed): Promise<Created>
  /**
   * Replaces the token in the URL of a feed.
   *
   * @throws Problem 403, 404 or 412
   */
  rotateToken(ctx: OpContext<BearerPrincipal>, id: string): Promise<Created>
}

interface Deps {
  /** Seal the URLs in stored responses. */
  readonly replayKeys: KeyRing
  /** Prefix of the URLs; empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
}

export const createFeeds = ({ replayKeys, publicUrl }: Deps): Feeds => {
  /** Runs `work`, which gives a new token to the feed with this id, once per Idempotency-Key. Its response shows the URL. */
  const withNewToken = async (
    ctx: OpContext<BearerPrincipal>,
    id: string,
    work: (tx: OpTransaction<BearerPrincipal>, hash: Buffer) => Promise<FeedRow>,
  ): Promise<Created> => {
    const { token, hash } = newFeedToken()
    const url = `${publicUrl}/feeds/${id}/calendar.ics?token=${token}`
    const sealed = sealForReplay(replayKeys, url, id)
    const response = await idempotent(
      ctx,
      async (tx) => {
        const { json } = await work(tx, hash)
        return { json, replay: jsonWithSealed(json, 'calendar_url', sealed) }
      },
      id,
    )
    const json = jsonWithSecret(replayKeys, response, { name: 'calendar_url', secret: url })
    return { ...response, json }
  }

  return {
    async create(ctx, feed) {
      // An invalid filter throws.
      calendarLists(feed, { now: new Date(), ...ctx.principal })
      const id = newId()
      return withNewToken(ctx, id, async (tx, hash) => {
        const { used, caller } = await pipeline(tx.db, {
          used: () => countOwnFeeds(tx),
          caller: () => readCaller(tx),
        })
        expectProven(caller)
        if (used >= maxFeeds)
          throw problems.quotaExceeded({ resource: 'feeds', quota: maxFeeds, used, size: 1 })
        const { view } = await pipeline(tx.db, {
          feed: () => insertFeed(tx, id, { ...feed, hash }),
          audit: () => recordAudit(tx, 'feed.created', { userId: tx.principal.userId }),
          view: () => viewFeed(tx, id),
        })
        return view
      })
    },

    rotateToken: (ctx, id) =>
      withNewToken(ctx, id, async (tx, hash) => {
        const { feed, caller } = await pipeline(tx.db, {
          feed: () => openToChange(tx, id),
          caller: () => readCaller(tx),
        })
        expectProven(caller)
        expectMatch(tx, feed)
        const { view } = await pipeline(tx.db, {
          token: () => replaceToken(tx, feed, hash),
          audit: () => recordAudit(tx, 'feed.token_rotated', { userId: tx.principal.userId }),
          view: () => viewFeed(tx, id),
        })
        return view
      }),
  }
}

/**
 * A feed that the caller may change, locked.
 *
 * @throws Problem 404, 403
 */
const openToChange = async (tx: TransactionContext<BearerPrincipal>, id: string): Promise<ChangeableFeed> =>
  expectMay('feed.change', expectSeen('feed.see', await lockFeed(tx, id)))

/** A page of the caller's feeds. */
export const listFeeds = (ctx: OpContext<BearerPrincipal>, page: PageRequest): Promise<Page> =>
  selectFeeds(ctx, page)

/** @throws Problem 404 */
export const getFeed = async (ctx: OpContext<BearerPrincipal>, id: string): Promise<FeedRow> =>
  expectFound(await selectFeed(ctx, id))

/** Changes a feed. @throws Problem 404, 412 */
export const updateFeed = (ctx: OpContext<BearerPrincipal>, id: string, patch: FeedPatch): Promise<FeedRow> =>
  transaction(ctx, async (tx) => {
    const feed = await openToChange(tx, id)
    expectMatch(tx, feed)
    if (
      changedFields<'name' | 'alarms' | 'color', unknown>(['name', 'alarms', 'color'], feed, patch) !== null
    )
      await updateFields(tx, feed, patch)
    return last(viewFeed(tx, id))
  })

/** Revokes a feed. @throws Problem 404, 412 */
export const deleteFeed = (ctx: OpContext<BearerPrincipal>, id: string): Promise<void> =>
  transaction(ctx, async (tx) => {
    const feed = await openToChange(tx, id)
    expectMatch(tx, feed)
    await pipeline(tx.db, {
      feed: () => revokeFeed(tx, feed),
      audit: () => recordAudit(tx, 'feed.revoked', { userId: tx.principal.userId }),
    })
  })
