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
import { asArray, asObject, type Json as Node, loadContract, resolve } from '../../src/contract/contract.ts'
import { listen } from '../../test/fixture/ports.ts'
import type { Teardown } from '../run/run-to-end.ts'

type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json }

/** A field that a later version of the service could add to any object. */
const addition = { field_of_a_later_version: { names: ['unknown'], value: null } }

/** A value that a later version of the service could send in any enumeration that may grow: it fits the pattern of event types. */
export const unknownValue = 'value.of_a_later_version'

const contract = loadContract()

/** The operations, those with the fewest parameters in the path first. */
const routes = [...contract.operations.values()]
  .toSorted((one, other) => one.path.split('{').length - other.path.split('{').length)
  .map(({ method, path }) => ({
    method,
    path,
    pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
  }))

/** The schema of a response. Empty if the contract documents none. */
const schemaOf = (method: string, url: string, status: number, type: string): Node => {
  const [pathname = ''] = url.split('?')
  const route = routes.find((one) => one.method === method && one.pattern.test(pathname))
  if (route === undefined) return {}
  const { paths } = contract.document
  const operation = asObject(asObject(asObject(paths)[route.path])[method.toLowerCase()])
  const response = resolve(contract.document, asObject(operation.responses)[status] ?? {})
  const { [type.split(';')[0] ?? '']: media } = asObject(response.content ?? {})
  return media === undefined ? {} : resolve(contract.document, asObject(media).schema)
}

/** A schema with the keywords and the properties of the members of its `allOf`. */
const flattened = (schema: Node): Node => {
  const parts = asArray(schema.allOf ?? []).map((part) => flattened(resolve(contract.document, part)))
  const properties = [schema, ...parts].flatMap((part) => Object.entries(asObject(part.properties ?? {})))
  const keywords = [schema, ...parts].flatMap(Object.entries<unknown>)
  return { ...Object.fromEntries(keywords), properties: Object.fromEntries(properties) }
}

const isList = (value: Json): value is readonly Json[] => Array.isArray(value)

/**
 * Adds an unknown field to every object in a value, and replaces the values of enumerations that may grow. The keys of a dictionary are
 * values, and not fields that a later version could add.
 */
const grow = (value: Json, node: unknown): Json => {
  const schema = flattened(resolve(contract.document, node))
  if (typeof value === 'string') return 'x-extensible-enum' in schema ? unknownValue : value
  if (isList(value)) return value.map((item) => grow(item, schema.items ?? {}))
  if (typeof value !== 'object' || value === null) return value
  const { additionalProperties: keySchema, properties } = schema
  const isDictionary = typeof keySchema === 'object'
  const fields = asObject(properties)
  const schemaOfField = (name: string) => (isDictionary ? keySchema : (fields[name] ?? {}))
  return {
    ...Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, grow(inner, schemaOfField(name))]),
    ),
    ...(!isDictionary && addition),
  }
}

const isJson = ({ 'content-type': type = '' }: IncomingHttpHeaders): boolean =>
  /^application\/([\w.-]+\+)?json\b/.test(type)

/** Headers that do not apply to the changed body. */
const bodyHeaders = new Set(['content-length', 'transfer-encoding', 'repr-digest', 'content-digest'])

/** Sends a request on. Resolves to the response. */
const forward = async (target: string, incoming: IncomingMessage): Promise<IncomingMessage> => {
  const { method, url = '/', headers } = incoming
  // The proxies cannot parse a compressed body.
  const sent = request(new URL(url, target), {
    method,
    headers: { ...headers, 'accept-encoding': 'identity' },
  })
  const response = once(sent, 'response').then(([message]: IncomingMessage[]) => message)
  await pipeline(incoming, sent)
  const received = await response
  if (received === undefined) throw new Error('no response')
  return received
}

const relay = async (response: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
  outgoing.writeHead(response.statusCode ?? 502, response.headers)
  await pipeline(response, outgoing)
}

/** Starts a proxy. Resolves to its URL. */
const startProxy = async (
  t: Teardown,
  respond: (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<unknown>,
): Promise<string> => {
  const server = createServer((incoming, outgoing) => {
    respond(incoming, outgoing).catch(() => outgoing.destroy())
  })
  const port = await listen(server)
  t.teardown(async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${port}`
}

/**
 * Starts a proxy in front of the service at `target` that answers as a later version could: with an unknown field in every JSON object,
 * and `unknownValue` in every enumeration that may grow. The contract allows both.
 */
export const startGrowthProxy = (t: Teardown, target: string): Promise<string> =>
  startProxy(t, async (incoming, outgoing) => {
    const response = await forward(target, incoming)
    const body = isJson(response.headers) ? await buffer(response) : null
    if (body === null || body.length === 0) return relay(response, outgoing)
    const { statusCode: status = 502, headers } = response
    const kept = Object.entries(headers).filter(([name]) => !bodyHeaders.has(name))
    const { method = 'GET', url = '/' } = incoming
    const schema = schemaOf(method, url, status, headers['content-type'] ?? '')
    const grown = grow(JSON.parse(body.toString()) as Json, schema)
    return outgoing.writeHead(status, Object.fromEntries(kept)).end(JSON.stringify(grown))
  })

/**
 * Starts a proxy in front of the service at `target` that answers the first request with an Idempotency-Key with 503, cuts the connection
 * of the second when the service has processed it, and relays the third.
 */
export const startUnreliableProxy = (t: Teardown, target: string): Promise<string> => {
  const requests: string[] = []
  return startProxy(t, async (incoming, outgoing) => {
    const key = String(incoming.headers['idempotency-key'])
    const earlier = requests.filter((one) => one === key).length
    requests.push(key)
    if (earlier === 0) return outgoing.writeHead(503, { 'retry-after': '1' }).end()
    const response = await forward(target, incoming)
    return earlier === 1 ? outgoing.destroy() : relay(response, outgoing)
  })
}
