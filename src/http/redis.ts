import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'

/** Milliseconds that an answer of Redis is waited for. */
const patience = 500

/** What instances share, which the service can do without: its user goes on when a command fails. */
export interface SharedCounts {
  readonly client: Redis
  /** To be told how each command ended: an outage is logged once, and so is its end. */
  readonly report: (failure: Error | null) => void
}

/** Connects to Redis, or to Valkey, and again whenever the connection is lost, until `app` closes. */
export const connectRedis = (app: FastifyInstance, url: string): SharedCounts => {
  const client = new Redis(url, {
    keyPrefix: 'taskwright:',
    // The connection to a server that hangs is given up, so that nothing piles up on it; what was sent on it fails with
    // it, and while there is none every command fails at once.
    socketTimeout: patience,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    retryStrategy: (attempts) => Math.min(attempts * 100, 2_000),
  })

  let isAway = false
  const report: SharedCounts['report'] = (failure) => {
    if (isAway === (failure !== null)) return
    isAway = failure !== null
    // Only the message: the error itself holds the command, which may be the one with the password.
    if (failure !== null)
      app.log.warn({ reason: failure.message }, 'Redis cannot be used; nothing is rate limited')
    else app.log.info('Redis can be used again; requests are rate limited')
  }
  client.on('error', report)
  client.on('ready', () => report(null))
  app.addHook('onClose', async () => client.disconnect())
  return { client, report }
}
