import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** The media type of a piece of a file (tus 1.0.0). */
export const pieceType = 'application/offset+octet-stream'

/** Whether a body follows the head of a request (RFC 9112 §6.3). */
export const hasBody = (headers: FastifyRequest['headers']): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

const fileTypes: ReadonlySet<string> = new Set(['multipart/form-data', pieceType])

/** Whether the operation takes a file, whose body its handler reads. */
export const bringsFile = ({ routeOptions }: FastifyRequest): boolean =>
  routeOptions.config.operation?.mediaTypes.some((type) => fileTypes.has(type)) === true

/** Requests whose client waits for 100 Continue before it sends the body, with their answers. */
const awaitingContinue = new WeakMap<IncomingMessage, ServerResponse>()

/** To be called before a body is read: a client that waits for 100 Continue gets it. */
export const continueBody = (request: IncomingMessage): void => {
  awaitingContinue.get(request)?.writeContinue()
  awaitingContinue.delete(request)
}

/**
 * Sends 100 Continue not before a request has passed the checks that need no body, where Node would send it at once (RFC 9110
 * §10.1.1). The body of a file is read by its handler, which calls `continueBody`.
 */
export const delayContinue = (app: FastifyInstance): void => {
  app.server.on('checkContinue', (request, response) => {
    awaitingContinue.set(request, response)
    app.routing(request, response)
  })
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const isTooLarge = Number(request.headers['content-length'] ?? 0) > request.routeOptions.bodyLimit
    if (!bringsFile(request) && !isTooLarge) continueBody(request.raw)
    done(null, payload)
  })
  // Whether the client sends the body after another status is unknown, and so is where its next request begins.
  app.addHook('onSend', ({ raw }, reply, payload, done) => {
    if (awaitingContinue.has(raw)) reply.header('connection', 'close')
    done(null, payload)
  })
}
