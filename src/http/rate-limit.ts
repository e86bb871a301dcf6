import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ContractOperation, RateLimitPolicy } from '../contract/contract.ts'
import { networkOf } from '../domain/shared/network.ts'
import type { Principal } from '../domain/shared/permissions.ts'
import { problems } from '../problems/problems.ts'
import { outerRequestOf } from './dispatch.ts'
import { type CountRequest, windowLength } from './request-counts.ts'

/**
 * Counts a request against its user, or against the client's network if it is not authenticated. A dispatched request has been
 * counted already. Sets the headers RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). The function that it returns
 * takes the count back.
 *
 * @throws Problem 429
 */
export type Limit = (
  request: FastifyRequest,
  reply: FastifyReply,
  rateLimit: ContractOperation['rateLimit'],
  principal: Principal | null,
) => Promise<TakeBack>

/** Subtracts a request from the counts again. When that fails, it stays counted. */
export type TakeBack = () => Promise<void>

interface RateLimitOptions {
  /** Requests per minute; null disables rate limiting. */
  readonly limits: Readonly<Record<RateLimitPolicy, number>> | null
  /** The Redis that instances share their counts in; null if each instance counts separately. */
  readonly redisUrl: string | null
  /** The counter of this instance, used without Redis and while Redis is unavailable. */
  readonly countHere: CountRequest
}

export const createLimit = async (
  app: FastifyInstance,
  { limits, redisUrl, countHere }: RateLimitOptions,
): Promise<Limit> => {
  if (limits === null) return async () => nothingCounted
  // Loaded only when needed: the Redis client is large.
  const countRequest =
    redisUrl === null ? countHere : (await import('./redis.ts')).countInRedis(app, redisUrl, countHere)

  const count = async (policy: RateLimitPolicy, caller: string): Promise<Count> => {
    const limit = limits[policy]
    const { requests, left, takeBack } = await countRequest(policy, caller)
    const reset = Math.max(1, Math.ceil(left / 1_000))
    return {
      policy,
      limit,
      left: Math.max(0, limit - requests),
      reset,
      isExceeded: requests > limit,
      takeBack,
    }
  }

  return async (request, reply, rateLimit, principal) => {
    const policies = policiesOf(rateLimit)
    if (policies.length === 0 || outerRequestOf(request) !== undefined) return nothingCounted
    const caller = callerOf(request, principal)
    const counts = await Promise.all(policies.map((policy) => count(policy, caller)))
    reply.headers({
      'ratelimit-policy': counts
        .map(({ policy, limit }) => `"${policy}";q=${limit};w=${windowLength}`)
        .join(', '),
      ratelimit: rateLimitOf(counts),
    })
    const [exceeded] = counts.filter((count) => count.isExceeded).toSorted((a, b) => b.reset - a.reset)
    if (exceeded !== undefined) throw problems.rateLimited(exceeded.limit, exceeded.reset)
    return async () => {
      const results = await Promise.allSettled(counts.map(({ takeBack }) => takeBack()))
      if (results.some(({ status }) => status === 'rejected')) return
      reply.header('ratelimit', rateLimitOf(counts, { takenBack: 1 }))
    }
  }
}

const nothingCounted: TakeBack = async () => {}

/** The header RateLimit. */
const rateLimitOf = (counts: readonly Count[], { takenBack = 0 } = {}): string =>
  counts.map(({ policy, left, reset }) => `"${policy}";r=${left + takenBack};t=${reset}`).join(', ')

/**
 * The caller that a request counts against: its user, or the client's network if it is not authenticated. Requests by a user's
 * links and feeds are counted separately, so that the holders of links cannot exhaust the user's own limit.
 */
export const callerOf = ({ ip }: FastifyRequest, principal: Principal | null): string => {
  if (principal === null) return networkOf(ip)
  const { kind } = principal.credential
  return kind === 'link' || kind === 'feed' ? `links of ${principal.userId}` : principal.userId
}

const policiesOf = (rateLimit: ContractOperation['rateLimit']): readonly RateLimitPolicy[] => {
  if (rateLimit === 'none') return []
  return rateLimit === 'upload' ? ['api', 'upload'] : [rateLimit]
}

interface Count {
  readonly policy: RateLimitPolicy
  readonly limit: number
  readonly left: number
  /** Seconds until the window ends. */
  readonly reset: number
  readonly isExceeded: boolean
  readonly takeBack: () => Promise<unknown>
}

/** Limits requests to pages, unknown paths and unknown methods, by network. */
export const limitOtherRoutes = (app: FastifyInstance, limit: Limit): void => {
  app.addHook('onRequest', async (request, reply) => {
    const { operation, countsRefusals = false } = request.routeOptions.config
    if (operation === undefined && !countsRefusals) await limit(request, reply, 'anonymous', null)
  })
}
