import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { listen } from '../../test/fixture/ports.ts'
import type { Teardown } from '../run/run-to-end.ts'

type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json }

/** A field that a later version of the service could add to any object. */
const addition = { field_of_a_later_version: { names: ['unknown'], value: null } }

/** Adds an unknown field to every object in a value. */
const grow = (value: Json): Json => {
  if (Array.isArray(value)) return value.map(grow)
  if (typeof value !== 'object' || value === null) return value
  return {
    ...Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, grow(inner)])),
    ...addition,
  }
}

const isJson = ({ 'content-type': type = '' }: IncomingHttpHeaders): boolean =>
  /^application\/([\w.-]+\+)?json\b/.test(type)

/** Headers that do not apply to the changed body. */
const bodyHeaders = new Set(['content-length', 'transfer-encoding', 'repr-digest', 'content-digest'])

const relay = async (target: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
  const { method = 'GET', url = '/', headers } = incoming
  const forwarded = request(new URL(url, target), {
    method,
    // The proxy cannot parse a compressed body.
    headers: { ...headers, 'accept-encoding': 'identity' },
  })
  const [response] = await Promise.all([
    once(forwarded, 'response').then(([message]: IncomingMessage[]) => message),
    pipeline(incoming, forwarded),
  ])
  if (response === undefined) return
  const body = isJson(response.headers) ? await buffer(response) : null
  if (body === null || body.length === 0) {
    outgoing.writeHead(response.statusCode ?? 502, response.headers)
    await pipeline(response, outgoing)
    return
  }
  const kept = Object.entries(response.headers).filter(([name]) => !bodyHeaders.has(name))
  outgoing.writeHead(response.statusCode ?? 502, Object.fromEntries(kept))
  outgoing.end(JSON.stringify(grow(JSON.parse(body.toString()) as Json)))
}

/**
 * Starts a proxy in front of the service at `target` that adds an unknown field to every JSON object in responses. The contract allows
 * the service to add fields, so clients must ignore them. Resolves to the URL of the proxy.
 */
export const startGrowthProxy = async (t: Teardown, target: string): Promise<string> => {
  const server = createServer((incoming, outgoing) => {
    relay(target, incoming, outgoing).catch(() => outgoing.destroy())
  })
  const port = await listen(server)
  t.teardown(async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${port}`
}
