import fastifyRateLimit, {
  type FastifyRateLimitStore,
  type RateLimitPluginOptions,
} from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { callbackify } from 'node:util'
import type { ContractOperation, RateLimitPolicy } from '../contract.ts'
import { networkOf } from '../domain/network.ts'
import type { Principal } from '../domain/permissions.ts'
import { problems } from '../problems.ts'
import type { SharedCounts } from './redis.ts'
import { type RequestCounts, windowLength } from './request-counts.ts'

/**
 * Counts a request for its user, or for the network of its client when nobody is signed in, and tells what is left in
 * RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers).
 *
 * @throws Problem 429
 */
export type Limit = (
  request: FastifyRequest,
  reply: FastifyReply,
  rateLimit: ContractOperation['rateLimit'],
  principal: Principal | null,
) => Promise<void>

interface RateLimitOptions {
  /** Requests per minute; null for no limits at all. */
  readonly limits: Readonly<Record<RateLimitPolicy, number>> | null
  /** Where instances count together; null when each counts its own. */
  readonly redisUrl: string | null
  /** Those of this instance, for want of Redis. */
  readonly counts: RequestCounts
}

/** Limits the rates of requests. While Redis cannot be used nothing is limited: an outage of it is not one of the service. */
export const createLimit = async (
  app: FastifyInstance,
  { limits, redisUrl, counts }: RateLimitOptions,
): Promise<Limit> => {
  if (limits === null) return async () => {}
  // The client is loaded for whoever uses it.
  const redis = redisUrl === null ? null : (await import('./redis.ts')).connectRedis(app, redisUrl)
  // The plugin asks for the key by the request alone.
  const callers = new WeakMap<FastifyRequest, string>()
  const counter = (policy: RateLimitPolicy): Promise<Counter> =>
    registerCounter(app, policy, limits[policy], redis ?? counts, (request) => callers.get(request) ?? '')
  const counters: Readonly<Record<RateLimitPolicy, Counter>> = {
    anonymous: await counter('anonymous'),
    sign_in: await counter('sign_in'),
    refresh: await counter('refresh'),
    api: await counter('api'),
    upload: await counter('upload'),
  }

  return async (request, reply, rateLimit, principal) => {
    callers.set(request, principal?.userId ?? networkOf(request.ip))
    const found = await Promise.all(policiesOf(rateLimit).map((policy) => counters[policy](request)))
    const counts = found.filter((count) => count !== null)
    if (counts.length === 0) return
    reply.headers({
      'ratelimit-policy': counts
        .map(({ policy, limit }) => `"${policy}";q=${limit};w=${windowLength}`)
        .join(', '),
      ratelimit: counts.map(({ policy, left, reset }) => `"${policy}";r=${left};t=${reset}`).join(', '),
    })
    const [exceeded] = counts.filter((count) => count.isExceeded).toSorted((a, b) => b.reset - a.reset)
    if (exceeded !== undefined) throw problems.rateLimited(exceeded.limit, exceeded.reset)
  }
}

const policiesOf = (rateLimit: ContractOperation['rateLimit']): readonly RateLimitPolicy[] => {
  if (rateLimit === 'none') return []
  return rateLimit === 'upload' ? ['api', 'upload'] : [rateLimit]
}

/** What is left of a policy. */
interface Count {
  readonly policy: RateLimitPolicy
  readonly limit: number
  readonly left: number
  /** Seconds until all of it is there again. */
  readonly reset: number
  readonly isExceeded: boolean
}

/** Counts a request; null when it cannot be counted. */
type Counter = (request: FastifyRequest) => Promise<Count | null>

/** Registers the plugin in a context of its own, since it can be in each only once and has one name space. */
const registerCounter = async (
  app: FastifyInstance,
  policy: RateLimitPolicy,
  limit: number,
  counts: SharedCounts | RequestCounts,
  callerOf: (request: FastifyRequest) => string,
): Promise<Counter> => {
  const redis = 'client' in counts ? counts : null
  const options: RateLimitPluginOptions = {
    global: false,
    max: limit,
    timeWindow: windowLength * 1_000,
    keyGenerator: callerOf,
    ...('client' in counts
      ? { redis: counts.client, nameSpace: `rate-limit:${policy}:` }
      : { store: storeOf(counts, policy) }),
  }
  const { promise, resolve } = Promise.withResolvers<Counter>()
  await app.register(async (context) => {
    await context.register(fastifyRateLimit, options)
    const count = context.createRateLimit()
    resolve(async (request) => {
      try {
        const state = await count(request)
        redis?.report(null)
        if (state.isAllowed) return null
        const { remaining, ttlInSeconds, isExceeded } = state
        return { policy, limit, left: remaining, reset: Math.max(1, ttlInSeconds), isExceeded }
      } catch (error) {
        if (redis === null || !(error instanceof Error)) throw error
        redis.report(error)
        return null
      }
    })
  })
  return promise
}

/**
 * What the plugin makes its store of. Its own hands out a count that the next requests still change before it is looked
 * at: of several that arrive together, all are refused when the last one is too many.
 */
const storeOf = (counts: RequestCounts, policy: RateLimitPolicy) => {
  const add = callbackify(async (caller: string) => {
    const { requests, left } = await counts.add(policy, caller)
    return { current: requests, ttl: left }
  })
  return class Store implements FastifyRateLimitStore {
    incr(caller: string, callback: Parameters<typeof add>[1]): void {
      add(caller, callback)
    }

    child(): Store {
      return this
    }
  }
}

/** Limits what has no operation, by network: pages, and paths and methods that are not there. */
export const limitOtherRoutes = (app: FastifyInstance, limit: Limit): void => {
  app.addHook('onRequest', async (request, reply) => {
    if (request.routeOptions.config.operation === undefined) await limit(request, reply, 'anonymous', null)
  })
}
