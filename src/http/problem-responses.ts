import { maxBodyBytes } from './body.ts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { randomUUID } from 'node:crypto'
import { domainProblem, type MapError, Problem, problemDocument, problems } from '../problems/problems.ts'
import { defaultHeaders } from './default-headers.ts'
import { shownPathOf } from './url.ts'

const mediaType = 'application/problem+json; charset=utf-8'

declare module 'fastify' {
  interface FastifyRequest {
    /** The problem that was sent as the response. */
    problem: Problem | undefined
  }
}

/** For the log: the cause of a 5xx response. */
export const reasonOf = ({ problem }: FastifyRequest): string | undefined => {
  if (problem === undefined || problem.status < 500) return undefined
  return problem.cause instanceof Error ? problem.cause.message : problem.message
}

/**
 * Sends a problem document (RFC 9457). Internal errors and lost files are logged with their cause. Outages are not logged here:
 * `reportOutages` logs them once, not for each request.
 */
export const sendProblem = (
  problem: Problem,
  publicUrl: string,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply => {
  if (problem.code === 'internal_error' || problem.code === 'file_lost')
    request.log.error({ err: problem.cause ?? problem }, problem.message)
  request.problem = problem
  // Set again: no hook ran if the URL is malformed, and a page may have set its own headers.
  return reply
    .code(problem.status)
    .removeHeader('content-length')
    .headers({
      ...defaultHeaders(request.protocol, publicUrl),
      ...problem.headers,
      'x-request-id': request.id,
    })
    .type(mediaType)
    .send(JSON.stringify(problemDocument(problem, publicUrl, shownPathOf(request.url), request.id)))
}

/**
 * The problem of any error. `mapError` maps those of the parts of the service, and `maxBytes` is the body limit of the request. An
 * unexpected error becomes an internal error, whose cause is only logged.
 */
export const problemOf = (error: unknown, mapError: MapError, maxBytes: number = maxBodyBytes): Problem => {
  if (error instanceof Problem) return error
  return domainProblem(error) ?? mapError(error) ?? problemOfFramework(error, maxBytes)
}

/** Converts Fastify's errors, by status. */
const problemOfFramework = (error: unknown, maxBytes: number): Problem => {
  if (!(error instanceof Error) || !('statusCode' in error)) return problems.internalError(error)
  switch (error.statusCode) {
    case 400:
      return problems.invalidRequest('The request is malformed.')
    // 403: a path that escapes the folder of the documentation.
    case 403:
    case 404:
      return problems.notFound()
    case 408:
      return problems.requestTimeout()
    case 413:
      return problems.contentTooLarge(maxBytes)
    case 414:
      return problems.uriTooLong()
    case 503:
      return problems.serviceUnavailable('The service is stopping. Retry in a few seconds.', error)
    default:
      return problems.internalError(error)
  }
}

/** Answers bytes that are not a valid HTTP request, or arrive too slowly, and closes the connection. */
export const refuseUnreadable = (
  error: Error & { code?: string },
  publicUrl: string,
  socket: Socket,
): void => {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const problem = problemOfParser(error.code)
  const requestId = randomUUID()
  const body = JSON.stringify(problemDocument(problem, publicUrl, '/', requestId))
  socket.end(
    [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
      `content-type: ${mediaType}`,
      `content-length: ${Buffer.byteLength(body)}`,
      ...Object.entries(defaultHeaders('http', publicUrl)).map(([name, value]) => `${name}: ${value}`),
      `x-request-id: ${requestId}`,
      'connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}

/** Maps the error codes of Node's HTTP server. */
const problemOfParser = (code = ''): Problem => {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return problems.requestTimeout()
    case 'HPE_HEADER_OVERFLOW':
      return problems.headerFieldsTooLarge()
    default:
      return problems.invalidRequest('The request is not valid HTTP.')
  }
}
