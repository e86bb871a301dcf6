import type { Database } from '../db/engine/client.ts'
import { selectFeedPrincipal } from '../db/interchange/feeds.ts'
import type { FeedPrincipal } from '../domain/shared/permissions.ts'
import { hashFeedToken } from './opaque-tokens.ts'

/**
 * Finds the owner of a calendar feed by the token in its URL. Null if there is no such feed or the token is not its own. Not cached, so
 * that a revocation takes effect immediately.
 */
export type FeedLinks = (feedId: string, token: string) => Promise<FeedPrincipal | 'revoked' | null>

export const createFeedLinks =
  (db: Database): FeedLinks =>
  async (id, token) => {
    const hash = hashFeedToken(token)
    return hash === null ? null : selectFeedPrincipal(db, { id, hash })
  }
