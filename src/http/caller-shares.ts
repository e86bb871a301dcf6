import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Principal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import { callerOf } from './rate-limit.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the caller holds of this process; null before the request is admitted. */
    share: CallerShare | null
  }
}

/** What a caller, a user or a network, holds of this process now. */
interface CallerShare {
  running: number
  /** Bytes of answers that the caller has not read. */
  unread: number
}

/**
 * Divides the process among callers. What one caller may hold depends on what is free (the dynamic thresholds of Choudhury and
 * Hahne): one alone may use most of it, and there is always something left for the next.
 */
export interface CallerShares {
  /**
   * Counts a request until its answer has left.
   *
   * @throws Problem 429
   */
  admit(request: FastifyRequest, reply: FastifyReply, principal: Principal | null): void
  /**
   * Counts the bytes of an answer until they have left.
   *
   * @throws Problem 429 when the request only reads: anything else has been done
   */
  hold(request: FastifyRequest, reply: FastifyReply, payload: string | Buffer): void
}

/** Bytes of answers that wait to be read by all callers together. */
export const maxUnread = 128 * 1_048_576

/** Bytes of an answer that is not counted: the socket's buffer mostly takes it whole. */
const smallAnswer = 16_384

export const shareAmongCallers = (
  app: FastifyInstance,
  limits: { readonly running: number; readonly unread: number },
): CallerShares => {
  const shares = new Map<string, CallerShare>()
  let running = 0
  let unread = 0
  app.decorateRequest('share', null)

  return {
    admit(request, reply, principal) {
      const caller = callerOf(request, principal)
      const share = shares.get(caller) ?? { running: 0, unread: 0 }
      if (share.running > 2 * (limits.running - running)) throw problems.tooManyRunning()
      if (share.unread > limits.unread - unread) throw problems.tooMuchUnread()
      shares.set(caller, share)
      request.share = share
      share.running += 1
      running += 1
      reply.raw.once('close', () => {
        share.running -= 1
        running -= 1
        if (share.running === 0) shares.delete(caller)
      })
    },

    hold({ method, share }, reply, payload) {
      if (share === null || payload.length < smallAnswer) return
      const size = Buffer.byteLength(payload)
      const isRead = method === 'GET' || method === 'HEAD'
      // Whoever has read everything gets an answer of any size.
      if (isRead && share.unread > 0 && share.unread + size > limits.unread - unread)
        throw problems.tooMuchUnread()
      share.unread += size
      unread += size
      reply.raw.once('close', () => {
        share.unread -= size
        unread -= size
      })
    },
  }
}
