import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { DispatchedRequest, DispatchedResponse } from '../contract/dispatch.ts'

/**
 * Requests that a handler sends to another operation of this process, without a connection. They run through all hooks, except
 * that limits are checked once, for the outer request from the network: its rate limit, its share of the process, and whether
 * the process is busy or stopping. Otherwise a request could exhaust its own limits.
 */

/** Outer requests by dispatched request. A header would not do, since clients could forge it. */
const outerRequests = new WeakMap<IncomingMessage, FastifyRequest>()

/** The request from the network on whose behalf a request was dispatched; undefined if the request is from the network itself. */
export const outerRequestOf = ({ raw }: Pick<FastifyRequest, 'raw'>): FastifyRequest | undefined =>
  outerRequests.get(raw)

/** Sends a request to another operation on behalf of `outer`, with its credential, client and request id. */
export type Dispatcher = (outer: FastifyRequest, request: DispatchedRequest) => Promise<DispatchedResponse>

/** `base` is the path of PUBLIC_URL, with which every URL starts. */
export const createDispatcher =
  (app: FastifyInstance, base: string): Dispatcher =>
  async (outer, { method, path, headers, body }) => {
    // Not `app.inject`, which refuses requests while the app closes and gives no access to the raw request. Loaded when needed.
    const { inject } = await import('light-my-request')
    const route: RequestListener = (request, response) => {
      outerRequests.set(request, outer)
      app.routing(request, response)
    }
    const { authorization, 'user-agent': userAgent } = outer.headers
    const response = await inject(route, {
      // The methods of the contract are all members of the type.
      method: method as 'GET',
      url: `${base}${path}`,
      // X-Forwarded-For is not passed on, so this is the client address.
      remoteAddress: outer.ip,
      headers: {
        ...(authorization !== undefined && { authorization }),
        'user-agent': userAgent,
        'x-request-id': outer.id,
        ...headers,
      },
      ...(body !== undefined && { payload: body }),
      validate: false,
    })
    return { status: response.statusCode, body: response.body }
  }
