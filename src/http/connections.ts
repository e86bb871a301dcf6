import type { FastifyInstance } from 'fastify'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { watchOutage } from '../domain/outage.ts'
import { problems } from '../problems/problems.ts'

/** Refuses a request without Host (RFC 9112 §3.2), as Node would, but with a problem. */
export const requireHost = (app: FastifyInstance): void => {
  app.addHook('onRequest', ({ raw }, reply, done) => {
    if (raw.headers.host !== undefined || raw.httpVersion === '1.0') return done()
    reply.header('connection', 'close')
    throw problems.invalidRequest('The request has no Host header.')
  })
}

/** Requests that may wait on one connection for those before them. */
const maxPipelined = 32

/**
 * Runs the requests of a connection one after the other, as their answers leave; Node would begin all of them at once. RFC 9112
 * §9.3.2 allows that for safe methods only, and each answer would wait in memory for those before it. A connection with more
 * than `maxPipelined` requests waiting is closed.
 */
export const runInOrder = (app: FastifyInstance): void => {
  interface Line {
    /** The answer to the latest request. */
    latest: ServerResponse
    waiting: number
  }
  const lines = new WeakMap<Socket, Line>()
  app.addHook('onRequest', ({ raw: { socket } }, reply, done) => {
    const line = lines.get(socket)
    if (line === undefined) {
      lines.set(socket, { latest: reply.raw, waiting: 0 })
      return done()
    }
    const before = line.latest
    line.latest = reply.raw
    if (before.closed) return done()
    if (line.waiting === maxPipelined) return void socket.destroy()
    line.waiting += 1
    before.once('close', () => {
      line.waiting -= 1
      // Nobody is there for the answer.
      if (!socket.destroyed) done()
    })
  })
}

/** Refuses a request that expects what is not known here (RFC 9110 §10.1.1), as Node would, but with a problem. */
export const refuseExpectations = (app: FastifyInstance): void => {
  app.server.on('checkExpectation', (request, response) => app.routing(request, response))
  app.addHook('onRequest', ({ raw: { headers } }, reply, done) => {
    if (headers.expect === undefined || headers.expect.toLowerCase() === '100-continue') return done()
    reply.header('connection', 'close')
    throw problems.expectationFailed()
  })
}

/** Requests that run at a time; more would only wait for each other, and fill the memory meanwhile. */
export const mostRequests = 1_000

/**
 * Of requests that have come together so many begin, or are refused, in one turn of the event loop. Node takes one new
 * connection in each turn: if all began in one, hundreds of them would keep a probe of health waiting for seconds.
 */
const mostInTurn = 2

/**
 * Refuses what comes while too much runs, before its body is read, and has the rest begin in the order in which it came. What
 * has no limit of its own (health) is answered at once.
 */
export const shedLoad = (app: FastifyInstance, limit: number): void => {
  let running = 0
  const begin = inTurns(mostInTurn)
  const refuse = inTurns(mostInTurn)
  const report = watchOutage({
    began: () => app.log.warn({ limit }, 'Too many concurrent requests; rejecting more'),
    ended: (outage) => app.log.warn(outage, 'Accepting concurrent requests again'),
  })
  app.addHook('onRequest', ({ routeOptions }, reply, done) => {
    if (routeOptions.config.operation?.rateLimit === 'none') return done()
    if (running >= limit) {
      const busy = problems.serviceUnavailable('The service is busy. Retry in a few seconds.')
      report(busy)
      return refuse(() => done(busy))
    }
    report(null)
    running += 1
    reply.raw.once('close', () => (running -= 1))
    begin(done)
  })
}

/** Calls what it is given, in that order and at most so many in one turn of the event loop: at once if it can. */
const inTurns = (most: number): ((next: () => void) => void) => {
  const waiting: (() => void)[] = []
  let left = most
  const turn = (): void => {
    const due = waiting.splice(0, most)
    left = most - due.length
    if (due.length > 0) setImmediate(turn)
    for (const next of due) next()
  }
  return (next) => {
    if (left === 0) return void waiting.push(next)
    if (left === most) setImmediate(turn)
    left -= 1
    next()
  }
}

/**
 * Lets a stop finish: what has begun is answered, if that takes no longer than `drainTime` (in milliseconds), what comes
 * after is refused, and every connection ends with the last answer.
 */
export const refuseWhileClosing = (app: FastifyInstance, drainTime: number): void => {
  let isClosing = false
  let begun = 0
  // A browser opens spare connections, and Node waits for them as long as nothing was ever sent on them.
  const cutOff = (): void => app.server.closeAllConnections()
  app.addHook('preClose', async () => {
    isClosing = true
    setTimeout(cutOff, drainTime).unref()
    if (begun === 0) cutOff()
  })
  app.addHook('onRequest', (_request, reply, done) => {
    if (isClosing) throw problems.serviceUnavailable('The service is stopping. Retry in a few seconds.')
    begun += 1
    reply.raw.once('close', () => {
      begun -= 1
      if (isClosing && begun === 0) cutOff()
    })
    done()
  })
  // A connection that is kept alive would hold up the stop until its client lets go of it.
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
}

/** Takes work that the app finishes before it closes what the work needs, even when its connection was cut off. */
export const finishOnClose = (app: FastifyInstance): ((work: Promise<unknown>) => void) => {
  const running = new Set<Promise<unknown>>()
  app.addHook('onClose', async () => {
    await Promise.allSettled(running)
  })
  return (work) => {
    const forget = (): void => void running.delete(work)
    running.add(work)
    work.then(forget, forget)
  }
}
