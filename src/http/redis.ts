import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { type CountRequest, limiterOptions, requestCount } from './request-counts.ts'

/** Milliseconds that an answer of Redis is waited for. */
const timeout = 500

/**
 * Counts in Redis, or in Valkey, until `app` closes; `countHere` takes over while it cannot be used. Not by the library's
 * `insuranceLimiter`, which keeps the reason of the failure from the log.
 */
export const countInRedis = (app: FastifyInstance, url: string, countHere: CountRequest): CountRequest => {
  const { client, report } = connectRedis(app, url)
  const limiter = new RateLimiterRedis({
    ...limiterOptions,
    storeClient: client,
    keyPrefix: 'rate-limit',
    // Otherwise a command waits for a connection that is still being made.
    rejectIfRedisNotReady: true,
  })
  return async (policy, caller) => {
    try {
      const result = await limiter.penalty(`${policy}:${caller}`)
      report(null)
      return requestCount(result)
    } catch (error) {
      report(error instanceof Error ? error : new Error(String(error)))
      return countHere(policy, caller)
    }
  }
}

interface Connection {
  readonly client: Redis
  /** Takes how each command ended, and logs the beginning of an outage and its end. */
  readonly report: (failure: Error | null) => void
}

/** Connects, and again whenever the connection is lost. */
const connectRedis = (app: FastifyInstance, url: string): Connection => {
  const client = new Redis(url, {
    keyPrefix: 'taskwright:',
    // A slow server delays each request by this much at most. One that hangs loses the connection, and every command fails
    // at once until there is another.
    commandTimeout: timeout,
    socketTimeout: timeout,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    retryStrategy: (attempts) => Math.min(attempts * 100, 2_000),
  })

  let isAway = false
  const report: Connection['report'] = (failure) => {
    if (isAway === (failure !== null)) return
    isAway = failure !== null
    // Only the message: the error itself holds the command, which may be the one with the password.
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
