import type { FastifyRateLimitStore } from '@fastify/rate-limit'
import { LRUCache } from 'lru-cache'

/** How many users or networks are counted; who has not come for the longest time is forgotten first. */
const capacity = 10_000

/**
 * Counts requests in memory. The plugin's own store hands out a count that the next requests still change before it is
 * looked at: of several that arrive together, all are refused when the last one is too many.
 */
export class MemoryStore implements FastifyRateLimitStore {
  readonly #windows = new LRUCache<string, { readonly requests: number; readonly end: number }>({
    max: capacity,
  })

  incr(
    key: string,
    callback: (error: null, result: { current: number; ttl: number }) => void,
    timeWindow: number,
  ): void {
    const now = performance.now()
    const known = this.#windows.get(key)
    const { requests, end } =
      known !== undefined && known.end > now ? known : { requests: 0, end: now + timeWindow }
    this.#windows.set(key, { requests: requests + 1, end })
    callback(null, { current: requests + 1, ttl: end - now })
  }

  child(): MemoryStore {
    return new MemoryStore()
  }
}
