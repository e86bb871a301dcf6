import type { FastifyInstance } from 'fastify'
import type { Server as HttpServer, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setImmediate as nextIteration, setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { watchOutage } from '../domain/upkeep/outage.ts'
import { problems } from '../problems/problems.ts'
import { outerRequestOf } from './dispatch.ts'
import { onRequestEnd } from './running.ts'

/** Refuses a request without Host (RFC 9112 §3.2). Node would too, but without a problem document. */
export const requireHost = (app: FastifyInstance): void => {
  app.addHook('onRequest', ({ raw }, reply, done) => {
    if (raw.headers.host !== undefined || raw.httpVersion === '1.0') return done()
    reply.header('connection', 'close')
    throw problems.invalidRequest('The request has no Host header.')
  })
}

/** Requests of one connection that may wait for earlier ones. */
const maxPipelined = 32

/**
 * Runs pipelined requests one at a time. Node starts them all at once, which RFC 9112 §9.3.2 allows for safe methods only,
 * and keeps their responses in memory until the earlier ones have been sent. A connection with more than `maxPipelined`
 * waiting requests is closed.
 */
export const serializePipelining = (app: FastifyInstance): void => {
  interface Pipeline {
    /** The response to the latest request. */
    latest: ServerResponse
    waiting: number
  }
  const pipelines = new WeakMap<Socket, Pipeline>()
  app.addHook('onRequest', ({ raw: { socket } }, reply, done) => {
    const pipeline = pipelines.get(socket)
    if (pipeline === undefined) {
      pipelines.set(socket, { latest: reply.raw, waiting: 0 })
      return done()
    }
    const before = pipeline.latest
    pipeline.latest = reply.raw
    if (before.closed) return done()
    if (pipeline.waiting === maxPipelined) return void socket.destroy()
    pipeline.waiting += 1
    // A response that streams a file has ten already, and Node warns of a leak beyond ten.
    before.setMaxListeners(before.getMaxListeners() + 1)
    before.once('close', () => {
      pipeline.waiting -= 1
      if (!socket.destroyed) done()
    })
  })
}

/** Refuses unknown expectations (RFC 9110 §10.1.1). Node would too, but without a problem document. */
export const refuseExpectations = (app: FastifyInstance): void => {
  app.server.on('checkExpectation', (request, response) => app.routing(request, response))
  app.addHook('onRequest', ({ raw: { headers } }, reply, done) => {
    if (headers.expect === undefined || headers.expect.toLowerCase() === '100-continue') return done()
    reply.header('connection', 'close')
    throw problems.expectationFailed()
  })
}

/** Concurrent requests. More would only wait for each other, in memory. */
export const maxRequests = 1_000

/**
 * Requests that start, or are refused, per iteration of the event loop. Node accepts one new connection per iteration: if
 * every request started at once, a long iteration would keep new connections, health probes among them, waiting. Without
 * this limit, 640 connections got 0.01 to 0.19 of the throughput of 64, and with it 0.65 to 1.1.
 */
const maxPerIteration = 2

/**
 * Refuses requests beyond `limit` concurrent ones, before their bodies are read. Requests start in the order of their
 * arrival. Operations without a rate limit (health) and dispatched requests are exempt.
 */
export const shedLoad = (app: FastifyInstance, limit: number): void => {
  let running = 0
  const start = perIteration(maxPerIteration)
  const refuse = perIteration(maxPerIteration)
  const report = watchOutage({
    began: () => app.log.warn({ limit }, 'Too many concurrent requests; rejecting more'),
    ended: (outage) => app.log.warn(outage, 'Accepting concurrent requests again'),
  })
  app.addHook('onRequest', (request, reply, done) => {
    const { operation } = request.routeOptions.config
    if (operation?.rateLimit === 'none' || outerRequestOf(request) !== undefined) return done()
    if (running >= limit) {
      const busy = problems.serviceUnavailable('The service is busy. Retry in a few seconds.')
      report(busy)
      return refuse(() => done(busy))
    }
    report(null)
    running += 1
    onRequestEnd(reply, () => (running -= 1))
    start(done)
  })
}

/** Returns a limiter that calls at most `max` functions per iteration of the event loop, in order, the first ones at once. */
const perIteration = (max: number): ((next: () => void) => void) => {
  const waiting: (() => void)[] = []
  let left = max
  const onIteration = (): void => {
    const due = waiting.splice(0, max)
    left = max - due.length
    if (due.length > 0) setImmediate(onIteration)
    for (const next of due) next()
  }
  return (next) => {
    if (left === 0) return void waiting.push(next)
    if (left === max) setImmediate(onIteration)
    left -= 1
    next()
  }
}

/** Milliseconds between two looks at whether connections are open. */
const checkEvery = 20

/** Milliseconds for which connections that wait to be accepted can delay a stop. */
const maxAccepting = 500

/**
 * Accepts the connections that are waiting, and then no more: the system would reset those that are left. `server.close()` would
 * also close connections that are idle at the moment.
 */
const stopListening = async (server: HttpServer): Promise<void> => {
  const end = performance.now() + maxAccepting
  let isAccepting = true
  const note = (): void => void (isAccepting = true)
  server.on('connection', note)
  // Each iteration of the event loop accepts a connection if there is one.
  while (isAccepting && performance.now() < end) {
    isAccepting = false
    await nextIteration()
    await nextIteration()
  }
  server.off('connection', note)
  NetServer.prototype.close.call(server)
}

interface StopTimes {
  /** Maximum duration in milliseconds of the phase in which requests are served, but connections are closing. */
  readonly lameDuck: number
  /** Milliseconds after which running requests are cut off. */
  readonly drain: number
}

/**
 * Graceful shutdown. A request on a connection that is being closed is lost. So at first the service is a lame duck: it accepts no
 * more connections, but serves requests, each as the last one of its connection, until all connections are closed or `lameDuck`
 * has passed. Then new requests are refused, and connections are closed after the last response.
 */
export const closeGracefully = (app: FastifyInstance, { lameDuck, drain }: StopTimes): void => {
  let phase: 'open' | 'accepting' | 'lame_duck' | 'drain' = 'open'
  let running = 0
  const held: (() => void)[] = []
  const countConnections = promisify(app.server.getConnections.bind(app.server))
  // Browsers open spare connections, and Node waits for those on which nothing was ever sent.
  const closeConnections = (): void => app.server.closeAllConnections()
  app.addHook('preClose', async () => {
    phase = 'accepting'
    setTimeout(closeConnections, drain).unref()
    const end = performance.now() + lameDuck
    await stopListening(app.server)
    phase = 'lame_duck'
    for (const next of held.splice(0)) next()
    while (performance.now() < end && (await countConnections()) > 0) await pause(checkEvery)
    phase = 'drain'
    if (running === 0) closeConnections()
  })
  app.addHook('onRequest', (request, reply, done) => {
    if (outerRequestOf(request) !== undefined) return done()
    if (phase === 'drain')
      throw problems.serviceUnavailable('The service is stopping. Retry in a few seconds.')
    running += 1
    reply.raw.once('close', () => {
      running -= 1
      if (phase === 'drain' && running === 0) closeConnections()
    })
    // Once answered, clients that connect for each request would connect again, so that some connections always wait.
    if (phase === 'accepting') held.push(done)
    else done()
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (phase !== 'open') reply.header('connection', 'close')
    done(null, payload)
  })
}

/** Returns a function that registers background work, which the app awaits before it closes the work's dependencies. */
export const awaitOnClose = (app: FastifyInstance): ((work: Promise<unknown>) => void) => {
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
