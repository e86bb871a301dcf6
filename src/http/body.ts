import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** Maximum body of a request without a file, in bytes. Most operations accept less: `x-max-body` in the contract. */
export const maxBodyBytes = 1_048_576

/** Media type of a PATCH to an upload (tus 1.0.0). */
export const chunkMediaType = 'application/offset+octet-stream'

/** Whether a request has a body (RFC 9112 §6.3). */
export const hasBody = (headers: FastifyRequest['headers']): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

const fileTypes: ReadonlySet<string> = new Set(['multipart/form-data', chunkMediaType])

/** Whether the operation takes a file, whose body the handler reads. */
export const isFileUpload = ({ routeOptions }: FastifyRequest): boolean =>
  routeOptions.config.operation?.mediaTypes.some((type) => fileTypes.has(type)) === true

/** The responses of requests whose clients wait for 100 Continue, by request. */
const awaitingContinue = new WeakMap<IncomingMessage, ServerResponse>()

/** Sends 100 Continue to a client that waits for it. Call before reading a body. */
export const continueBody = (request: IncomingMessage): void => {
  awaitingContinue.get(request)?.writeContinue()
  awaitingContinue.delete(request)
}

/**
 * Delays 100 Continue until a request has passed the checks that need no body; Node would send it at once (RFC 9110
 * §10.1.1). Handlers of file operations call `continueBody` themselves.
 */
export const delayContinue = (app: FastifyInstance): void => {
  app.server.on('checkContinue', (request, response) => {
    awaitingContinue.set(request, response)
    app.routing(request, response)
  })
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const isTooLarge = Number(request.headers['content-length'] ?? 0) > request.routeOptions.bodyLimit
    if (!isFileUpload(request) && !isTooLarge) continueBody(request.raw)
    done(null, payload)
  })
  // After a final status the client may still send the body or not: the start of the next request would be ambiguous.
  app.addHook('onSend', ({ raw }, reply, payload, done) => {
    if (awaitingContinue.has(raw)) reply.header('connection', 'close')
    done(null, payload)
  })
}
