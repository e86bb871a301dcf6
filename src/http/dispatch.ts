import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { DispatchedRequest, DispatchedResponse } from '../contract/dispatch.ts'

/**
 * Requests that a handler sends to another operation of this process, without a connection. They run through the whole
 * pipeline. What was checked for the request from the network is not checked again: its rate limit, its share of the process,
 * and whether the process is busy or stopping. A request could otherwise be refused by itself.
 */

/** By dispatched request. Not a header, which could be forged. */
const outerRequests = new WeakMap<IncomingMessage, FastifyRequest>()

/** The request from the network that a request was dispatched for; undefined if it came from the network itself. */
export const outerRequestOf = ({ raw }: Pick<FastifyRequest, 'raw'>): FastifyRequest | undefined =>
  outerRequests.get(raw)

/** Sends a request to another operation on behalf of `outer`, with its credential, client and request id. */
export type Dispatcher = (outer: FastifyRequest, request: DispatchedRequest) => Promise<DispatchedResponse>

/** `base` is the path of PUBLIC_URL, which the router expects in front of every path. */
export const createDispatcher =
  (app: FastifyInstance, base: string): Dispatcher =>
  async (outer, { method, path, headers, body }) => {
    // Loaded only when needed. `app.inject` is the same, but refuses while the app closes, and its requests cannot be told apart.
    const { inject } = await import('light-my-request')
    const route: RequestListener = (request, response) => {
      outerRequests.set(request, outer)
      app.routing(request, response)
    }
    const { authorization, 'user-agent': userAgent } = outer.headers
    const response = await inject(route, {
      // Of the contract, whose methods are all among those of the type.
      method: method as 'GET',
      url: `${base}${path}`,
      // Without X-Forwarded-For, the address stays the one that was found for `outer`.
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
