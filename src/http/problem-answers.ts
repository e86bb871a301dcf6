import type { FastifyReply, FastifyRequest } from 'fastify'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { newId } from '../db/engine/ids.ts'
import { type Problem, problemDocument, problems } from '../problems/problems.ts'
import { securityHeaders } from './security-headers.ts'
import { shownPathOf } from './url.ts'

const mediaType = 'application/problem+json; charset=utf-8'

declare module 'fastify' {
  interface FastifyRequest {
    /** What it was answered with, if that was a problem. */
    problem: Problem | undefined
  }
}

/** Why the service refused a request that it would answer at another time, for those who read its log. */
export const reasonOf = ({ problem }: FastifyRequest): string | undefined => {
  if (problem === undefined || problem.status < 500) return undefined
  return problem.cause instanceof Error ? problem.cause.message : problem.message
}

/**
 * Answers with a problem (RFC 9457). A fault of the service, or a lost file, goes to the log with its cause; an outage is told
 * of elsewhere, once.
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
  // Again: no hook has set them when it is the URL that cannot be read, and a page may have set its own.
  return reply
    .code(problem.status)
    .removeHeader('content-length')
    .headers({
      ...securityHeaders(request.protocol, publicUrl),
      ...problem.headers,
      'x-request-id': request.id,
    })
    .type(mediaType)
    .send(JSON.stringify(problemDocument(problem, publicUrl, shownPathOf(request.url), request.id)))
}

/** Answers on a connection whose bytes are no HTTP request, or came too slowly, and closes it. */
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
  const requestId = newId()
  const body = JSON.stringify(problemDocument(problem, publicUrl, '/', requestId))
  socket.end(
    [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
      `content-type: ${mediaType}`,
      `content-length: ${Buffer.byteLength(body)}`,
      ...Object.entries(securityHeaders('http', publicUrl)).map(([name, value]) => `${name}: ${value}`),
      `x-request-id: ${requestId}`,
      'connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}

/** What the codes of Node's HTTP server mean. */
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
