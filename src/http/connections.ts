import type { FastifyInstance } from 'fastify'
import { problems } from '../problems.ts'

/** Refuses a request without Host (RFC 9112 §3.2), as Node would, but with a problem. */
export const requireHost = (app: FastifyInstance): void => {
  app.addHook('onRequest', async ({ raw }, reply) => {
    if (raw.headers.host !== undefined || raw.httpVersion === '1.0') return
    reply.header('connection', 'close')
    throw problems.invalidRequest('The request has no Host header.')
  })
}

/** Refuses a request that expects what is not known here (RFC 9110 §10.1.1), as Node would, but with a problem. */
export const refuseExpectations = (app: FastifyInstance): void => {
  app.server.on('checkExpectation', (request, response) => app.routing(request, response))
  app.addHook('onRequest', async ({ headers: { expect } }, reply) => {
    if (expect === undefined || expect.toLowerCase() === '100-continue') return
    reply.header('connection', 'close')
    throw problems.expectationFailed()
  })
}

/** How long a stop waits for the requests that have begun, in milliseconds. */
const drainTime = 20_000

/**
 * Lets a stop finish: what has begun is answered, what comes after is refused, and every connection ends with the last
 * answer.
 */
export const refuseWhileClosing = (app: FastifyInstance): void => {
  let isClosing = false
  let begun = 0
  // A browser opens spare connections, and Node waits for them as long as nothing was ever sent on them.
  const cutOff = (): void => app.server.closeAllConnections()
  app.addHook('preClose', async () => {
    isClosing = true
    setTimeout(cutOff, drainTime).unref()
    if (begun === 0) cutOff()
  })
  app.addHook('onRequest', async (_request, reply) => {
    if (isClosing) throw problems.serviceUnavailable('The service is stopping. Try again in a few seconds.')
    begun += 1
    reply.raw.once('close', () => {
      begun -= 1
      if (isClosing && begun === 0) cutOff()
    })
  })
  // A connection that is kept alive would hold up the stop until its client lets go of it.
  app.addHook('onSend', async (_request, reply) => {
    if (isClosing) reply.header('connection', 'close')
  })
}
