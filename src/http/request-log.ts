import type { FastifyInstance, FastifyRequest } from 'fastify'
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { reasonOf } from './problem-responses.ts'
import { shownPathOf } from './url.ts'

/** The X-Request-Id of the client or proxy if it is well-formed, otherwise a new id. */
export const requestIdOf = ({ headers }: IncomingMessage): string => {
  const given = headers['x-request-id']
  return typeof given === 'string' && /^[\w.:-]{1,64}$/.test(given) ? given : randomUUID()
}

/** The path template, such as `/tasks/{task_id}`. It has few distinct values, so it can label metrics. */
export const routeOf = ({ routeOptions }: FastifyRequest): string =>
  routeOptions.config.operation?.path ?? routeOptions.url ?? 'none'

/** Logs one line per response. Queries, headers and bodies are left out because they may hold personal data or secrets. */
export const logRequests = (app: FastifyInstance): void => {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { principal, problem } = request
    request.log.info(
      {
        method: request.method,
        path: shownPathOf(request.url),
        route: routeOf(request),
        operation_id: request.routeOptions.config.operation?.id,
        status: reply.statusCode,
        problem: problem?.code,
        reason: reasonOf(request),
        duration_ms: Math.round(reply.elapsedTime * 10) / 10,
        remote_address: request.ip,
        principal_id: principal?.userId,
        credential: principal?.credential.kind,
      },
      'request',
    )
    done()
  })
}
