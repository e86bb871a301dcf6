import type { FastifyInstance } from 'fastify'
import { problems } from '../problems/problems.ts'
import { isFileUpload, hasBody } from './body.ts'
import { outerRequestOf } from './dispatch.ts'

/** Time limits in milliseconds. */
export interface TimeLimits {
  /** From connecting, or from the first byte of a request, to the end of its head. */
  readonly head: number
  /** From the head to the end of a body that is not a file. */
  readonly body: number
  /** From the end of the body to the response, unless the body is a file. */
  readonly answer: number
  /** Without a byte in either direction while a request runs. */
  readonly stall: number
  /** Between two heartbeats of an event stream. Must be well below `stall` and the idle timeouts of proxies. */
  readonly heartbeat: number
  /** Between two requests of a connection. */
  readonly keepAlive: number
  /** While the service stops: how long it serves requests on connections that it has asked clients to close. */
  readonly lameDuck: number
  /** Lifetime of a cached readiness check. */
  readonly readiness: number
  /** Between two checks for late heads. `head` can be exceeded by this much. */
  readonly checkEvery: number
}

export const timeLimits: TimeLimits = {
  head: 30_000,
  body: 30_000,
  answer: 20_000,
  stall: 60_000,
  heartbeat: 15_000,
  keepAlive: 72_000,
  lameDuck: 1_000,
  readiness: 1_000,
  checkEvery: 5_000,
}

/** Refuses a body that does not arrive in time. Files are exempt. */
export const limitBodyTime = (app: FastifyInstance, limit: number): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    if (!hasBody(request.headers) || isFileUpload(request) || outerRequestOf(request) !== undefined)
      return done()
    const refuse = (): void => {
      if (raw.complete) return
      // The body's reader must not see the rest of it.
      raw.removeAllListeners()
      if (reply.raw.headersSent) raw.destroy()
      else reply.header('connection', 'close').send(problems.requestTimeout())
    }
    const timer = setTimeout(refuse, limit).unref()
    raw.once('close', () => clearTimeout(timer))
    done()
  })
}
