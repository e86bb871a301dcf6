import {
  RateLimiterCluster,
  RateLimiterClusterMaster,
  RateLimiterMemory,
  type RateLimiterRes,
} from 'rate-limiter-flexible'
import type { RateLimitPolicy } from '../contract/contract.ts'
import { widerNetworkOf } from '../domain/shared/network.ts'

/** Seconds. The window of a caller begins with its first request. */
export const windowLength = 60

export interface RequestCount {
  /** Requests in the current window, including this one. */
  readonly requests: number
  /** Milliseconds until the window ends. */
  readonly left: number
  /** Subtracts this request. */
  readonly takeBack: () => Promise<unknown>
}

/** Adds a request to the count of a user or a network. */
export type CountRequest = (policy: RateLimitPolicy, caller: string) => Promise<RequestCount>

/**
 * The library only counts: `penalty` increments and never rejects, so that one limiter serves policies with different
 * limits.
 */
export const limiterOptions = { points: 1, duration: windowLength }

export const requestCount = (
  { consumedPoints, msBeforeNext }: RateLimiterRes,
  takeBack: RequestCount['takeBack'],
): RequestCount => ({ requests: consumedPoints, left: msBeforeNext, takeBack })

/** Maximum number of new callers with their own count per window. One IPv6 client can use more networks than fit in memory. */
const maxNewCallers = 20_000

/** How long a worker waits for the supervisor, in milliseconds. */
const supervisorTimeout = 500

/** Counts in the memory of this process. */
export const countInMemory = (maxNew = maxNewCallers): CountRequest =>
  boundedCounter(new RateLimiterMemory({ ...limiterOptions, keyPrefix: '' }), maxNew)

/** Keeps the counts of all workers. Call it in the supervisor before the workers start. */
export const shareCountsWithWorkers = (): void => void new RateLimiterClusterMaster()

/** Counts in this worker's supervisor; falls back to this process's memory if the supervisor does not answer. */
export const countInSupervisor = (): CountRequest => {
  const countTogether = boundedCounter(
    new RateLimiterCluster({ ...limiterOptions, keyPrefix: 'requests', timeoutMs: supervisorTimeout }),
    maxNewCallers,
  )
  const countHere = countInMemory()
  return (policy, caller) => countTogether(policy, caller).catch(() => countHere(policy, caller))
}

/** After `maxNew` callers in a window, new ones share the count of a wider network, because the library has no bound. */
const boundedCounter = (limiter: RateLimiterMemory | RateLimiterCluster, maxNew: number): CountRequest => {
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
    const key = `${policy}:${isShared ? widerNetworkOf(caller) : caller}`
    const result = await limiter.penalty(key)
    if (result.isFirstInDuration) newCallers += 1
    return requestCount(result, () => limiter.reward(key))
  }
}
