import { LRUCache } from 'lru-cache'
import type { RateLimitPolicy } from '../contract.ts'

/** Seconds after the first request that a count begins anew. */
export const windowLength = 60

/** How many users or networks are counted; who has not come for the longest time is forgotten first. */
const capacity = 10_000

export interface RequestCount {
  readonly requests: number
  /** Milliseconds until it begins anew. */
  readonly left: number
}

/** How many requests each user or network has made, by policy. */
export interface RequestCounts {
  /** Counts one more. */
  add(policy: RateLimitPolicy, caller: string): Promise<RequestCount>
}

type Windows = LRUCache<string, { readonly requests: number; readonly end: number }>

/** Counts in the memory of this process. */
export const memoryCounts = (): RequestCounts => {
  const newWindows = (): Windows => new LRUCache({ max: capacity })
  const windows: Readonly<Record<RateLimitPolicy, Windows>> = {
    anonymous: newWindows(),
    sign_in: newWindows(),
    refresh: newWindows(),
    api: newWindows(),
    upload: newWindows(),
    resume: newWindows(),
  }
  return {
    async add(policy, caller) {
      const now = performance.now()
      const known = windows[policy].get(caller)
      const { requests, end } =
        known !== undefined && known.end > now ? known : { requests: 0, end: now + windowLength * 1_000 }
      windows[policy].set(caller, { requests: requests + 1, end })
      return { requests: requests + 1, left: end - now }
    },
  }
}
