import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import type { RateLimitPolicy } from '../contract/contract.ts'
import { widerNetworkOf } from '../domain/network.ts'

/** Seconds. A caller's window begins with the first request in it. */
export const windowLength = 60

export interface RequestCount {
  /** Of the current window, this one included. */
  readonly requests: number
  /** Milliseconds until the window ends. */
  readonly left: number
}

/** Counts one more request of a user or a network. */
export type CountRequest = (policy: RateLimitPolicy, caller: string) => Promise<RequestCount>

/**
 * A limiter only counts here: `penalty` adds to a count and never rejects, so that one limiter serves policies with different
 * limits, and the primary of several workers need not know them.
 */
export const limiterOptions = { points: 1, duration: windowLength }

export const requestCount = ({ consumedPoints, msBeforeNext }: RateLimiterRes): RequestCount => ({
  requests: consumedPoints,
  left: msBeforeNext,
})

/** Callers that get a count of their own in one window. An IPv6 client can have more networks than fit into memory. */
const maxNewCallers = 20_000

/** Counts in the memory of this process. Above `maxNew` callers in a window, new ones share the count of a wider network. */
export const countInMemory = (maxNew = maxNewCallers): CountRequest => {
  const limiter = new RateLimiterMemory({ ...limiterOptions, keyPrefix: '' })
  let windowStart = performance.now()
  let newCallers = 0

  const isFull = (): boolean => {
    const now = performance.now()
    if (now - windowStart >= windowLength * 1_000) {
      windowStart = now
      newCallers = 0
    }
    return newCallers >= maxNew
  }

  return async (policy, caller) => {
    const isShared = isFull() && (await limiter.get(`${policy}:${caller}`)) === null
    const result = await limiter.penalty(`${policy}:${isShared ? widerNetworkOf(caller) : caller}`)
    if (result.isFirstInDuration) newCallers += 1
    return requestCount(result)
  }
}
