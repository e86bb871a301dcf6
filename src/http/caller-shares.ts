import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Principal } from '../domain/shared/permissions.ts'
import { problems } from '../problems/problems.ts'
import { outerRequestOf } from './dispatch.ts'
import { callerOf } from './rate-limit.ts'
import { onRequestEnd } from './running.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller's usage; null before the request is admitted. */
    share: CallerShare | null
  }
}

/** The resources of this process that a caller (a user or a network) uses. */
interface CallerShare {
  running: number
  /** Bytes of responses that the caller has not read. */
  unread: number
}

/**
 * Shares the process among callers. A caller's limit is proportional to what is free (dynamic thresholds, Choudhury and Hahne
 * 1998): a single caller may use most of it, and a new caller always finds some free.
 */
export interface CallerShares {
  /**
   * Counts a request while it is running. A dispatched request is part of its outer request, which is counted already.
   *
   * @throws Problem 429
   */
  admit(request: FastifyRequest, reply: FastifyReply, principal: Principal | null): void
  /**
   * Counts the bytes of a response until they are sent.
   *
   * @throws Problem 429 only if the request is a read: a write has already happened
   */
  hold(request: FastifyRequest, reply: FastifyReply, payload: string | Buffer): void
}

/** Unread response bytes of all callers together. */
export const maxUnread = 128 * 1_048_576

/** Bytes. Smaller responses are not counted, since they usually fit into the socket's buffer. */
const minCountedSize = 16_384

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
      const outer = outerRequestOf(request)
      if (outer !== undefined) {
        request.share = outer.share
        return
      }
      const caller = callerOf(request, principal)
      const share = shares.get(caller) ?? { running: 0, unread: 0 }
      if (share.running > 2 * (limits.running - running)) throw problems.tooManyRunning()
      if (share.unread > limits.unread - unread) throw problems.tooMuchUnread()
      shares.set(caller, share)
      request.share = share
      share.running += 1
      running += 1
      onRequestEnd(reply, () => {
        share.running -= 1
        running -= 1
        if (share.running === 0) shares.delete(caller)
      })
    },

    hold({ method, share }, reply, payload) {
      if (share === null || payload.length < minCountedSize) return
      const size = Buffer.byteLength(payload)
      const isRead = method === 'GET' || method === 'HEAD'
      // A caller who has read everything may get a response of any size.
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
