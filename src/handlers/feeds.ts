import type { components } from '../../generated/openapi.ts'
import { created, ok, quoteETag, shown, versionETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import type { ReadCalendar } from '../services/interchange/feed-calendars.ts'
import { deleteFeed, type Feeds, getFeed, listFeeds, updateFeed } from '../services/interchange/feeds.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly feeds: Feeds
  readonly readCalendar: ReadCalendar
}

type Schemas = components['schemas']

/** The operations of the contract's tag `feeds`. */
export const feedHandlers = ({ paging, feeds, readCalendar }: Deps) =>
  ({
    async listFeeds(ctx, { path, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listFeeds(ctx, request))
    },

    async createFeed(ctx, { body: { color = null, ...body } }) {
      const feed = await feeds.create(ctx, { ...body, color })
      return created<Schemas['FeedWithUrl']>(`/feeds/${feed.id}`, feed, versionETag)
    },

    async getFeed(ctx, { params }) {
      return ok<Schemas['Feed']>(await getFeed(ctx, params.feed_id))
    },

    async updateFeed(ctx, { params, body }) {
      return ok<Schemas['Feed']>(await updateFeed(ctx, params.feed_id, body))
    },

    async deleteFeed(ctx, { params }) {
      await deleteFeed(ctx, params.feed_id)
      return { status: 204 }
    },

    async rotateFeedToken(ctx, { params }) {
      const { json, replayed } = await feeds.rotateToken(ctx, params.feed_id)
      return { ...shown<Schemas['FeedWithUrl']>(json, versionETag), replayed }
    },

    async getFeedCalendar(ctx) {
      const { text, hash } = await readCalendar(ctx)
      return {
        status: 200,
        headers: { etag: quoteETag(hash) },
        contentType: 'text/calendar; charset=utf-8',
        body: text,
      }
    },
  }) satisfies Partial<Handlers>
