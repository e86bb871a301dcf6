import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { type CountRequest, limiterOptions, requestCount } from './request-counts.ts'

/** Milliseconds per command. */
const timeout = 500

/**
 * Counts in Redis or Valkey until `app` closes; falls back to `countHere` while it is unavailable. The library's own
 * `insuranceLimiter` is not used: it hides the error, which should be logged, and its counts in memory are unbounded.
 */
export const countInRedis = (app: FastifyInstance, url: string, countHere: CountRequest): CountRequest => {
  const { client, report } = connectRedis(app, url)
  const limiter = new RateLimiterRedis({
    ...limiterOptions,
    storeClient: client,
    keyPrefix: 'rate-limit',
    // Otherwise commands wait while the client connects.
    rejectIfRedisNotReady: true,
  })
  return async (policy, caller) => {
    try {
      const key = `${policy}:${caller}`
      const result = await limiter.penalty(key)
      report(null)
      return requestCount(result, () => limiter.reward(key))
    } catch (error) {
      report(error instanceof Error ? error : new Error(String(error)))
      return countHere(policy, caller)
    }
  }
}

interface Connection {
  readonly client: Redis
  /** Takes the error of each command, null on success. Logs the start and the end of an outage. */
  readonly report: (failure: Error | null) => void
}

const connectRedis = (app: FastifyInstance, url: string): Connection => {
  const client = new Redis(url, {
    keyPrefix: 'taskwright:',
    // The maximum delay of a request by a slow server. A hanging server loses its connection, and commands fail immediately
    // until there is a new one.
    commandTimeout: timeout,
    socketTimeout: timeout,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    retryStrategy: (attempts) => Math.min(attempts * 100, 2_000),
  })

  let isUnavailable = false
  const report: Connection['report'] = (failure) => {
    if (isUnavailable === (failure !== null)) return
    isUnavailable = failure !== null
    // Only the message: the error contains the command, which may include the password.
    if (failure !== null)
      app.log.warn(
        { reason: failure.message },
        'Redis is unavailable; each instance counts requests separately',
      )
    else app.log.info('Redis is available again; instances share their request counts')
  }
  client.on('error', report)
  client.on('ready', () => report(null))
  app.addHook('onClose', async () => client.disconnect())
  return { client, report }
}
