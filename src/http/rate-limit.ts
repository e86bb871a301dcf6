import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
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
  const counter = async (policy: RateLimitPolicy): Promise<Counter> =>
    redis === null
      ? countHere(counts, policy, limits[policy])
      : countInRedis(app, redis, policy, limits[policy])
  const counters: Readonly<Record<RateLimitPolicy, Counter>> = {
    anonymous: await counter('anonymous'),
    sign_in: await counter('sign_in'),
    refresh: await counter('refresh'),
    api: await counter('api'),
    upload: await counter('upload'),
    resume: await counter('resume'),
  }

  return async (request, reply, rateLimit, principal) => {
    const caller = principal?.userId ?? networkOf(request.ip)
    const found = await Promise.all(policiesOf(rateLimit).map((policy) => counters[policy](request, caller)))
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

/** Counts a request of a caller; null when it cannot be counted. */
type Counter = (request: FastifyRequest, caller: string) => Promise<Count | null>

const countHere =
  (counts: RequestCounts, policy: RateLimitPolicy, limit: number): Counter =>
  async (_request, caller) => {
    const { requests, left } = await counts.add(policy, caller)
    const reset = Math.max(1, Math.ceil(left / 1_000))
    return { policy, limit, left: Math.max(0, limit - requests), reset, isExceeded: requests > limit }
  }

/** Registers the plugin in a context of its own, since it can be in each only once and has one name space. */
const countInRedis = async (
  app: FastifyInstance,
  { client, report }: SharedCounts,
  policy: RateLimitPolicy,
  limit: number,
): Promise<Counter> => {
  const { default: fastifyRateLimit } = await import('@fastify/rate-limit')
  // The plugin asks for the key by the request alone.
  const callers = new WeakMap<FastifyRequest, string>()
  const { promise, resolve } = Promise.withResolvers<Counter>()
  await app.register(async (context) => {
    await context.register(fastifyRateLimit, {
      global: false,
      max: limit,
      timeWindow: windowLength * 1_000,
      keyGenerator: (request) => callers.get(request) ?? '',
      redis: client,
      nameSpace: `rate-limit:${policy}:`,
    })
    const count = context.createRateLimit()
    resolve(async (request, caller) => {
      callers.set(request, caller)
      try {
        const state = await count(request)
        report(null)
        if (state.isAllowed) return null
        const { remaining, ttlInSeconds, isExceeded } = state
        return { policy, limit, left: remaining, reset: Math.max(1, ttlInSeconds), isExceeded }
      } catch (error) {
        if (!(error instanceof Error)) throw error
        report(error)
        return null
      }
    })
  })
  return promise
}

/** Limits what has no operation, by network: pages, and paths and methods that are not there. */
export const limitOtherRoutes = (app: FastifyInstance, limit: Limit): void => {
  app.addHook('onRequest', async (request, reply) => {
    if (request.routeOptions.config.operation === undefined) await limit(request, reply, 'anonymous', null)
  })
}
