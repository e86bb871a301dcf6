import type { FastifyInstance } from 'fastify'
import { problems } from '../problems/problems.ts'
import { bringsFile, hasBody } from './body.ts'

/** How long a client may take, and we, in milliseconds. */
export interface TimeLimits {
  /** From the first byte of a request, or from connecting, to the end of its head. */
  readonly head: number
  /** From the head to the end of a body that is not a file. */
  readonly body: number
  /** From there to the answer, unless the body is a file. */
  readonly answer: number
  /** While a request runs, without a byte in either direction. */
  readonly stall: number
  /** Between two requests of a connection. */
  readonly keepAlive: number
  /** For which the result of a readiness check is given to all who ask. */
  readonly readiness: number
  /** How often heads are looked at: one may take so much longer. */
  readonly checkEvery: number
}

export const timeLimits: TimeLimits = {
  head: 30_000,
  body: 30_000,
  answer: 20_000,
  stall: 60_000,
  keepAlive: 72_000,
  readiness: 1_000,
  checkEvery: 5_000,
}

/** Refuses a body that does not arrive in time; one that brings a file has the time of a whole request. */
export const limitBodyTime = (app: FastifyInstance, limit: number): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    if (!hasBody(request.headers) || bringsFile(request)) return done()
    const refuse = (): void => {
      if (raw.complete) return
      // Whoever reads the body must not go on with what still comes of it.
      raw.removeAllListeners()
      if (reply.raw.headersSent) raw.destroy()
      else reply.header('connection', 'close').send(problems.requestTimeout())
    }
    const timer = setTimeout(refuse, limit).unref()
    raw.once('close', () => clearTimeout(timer))
    done()
  })
}
