import { lookup as lookUpLocally, type LookupAddress } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import {
  Agent as HttpAgent,
  request as requestHttp,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { type AddressRules, hostnameOf } from './addresses.ts'

/** Sends requests to URLs chosen by users. */

/** Milliseconds that a request may take in total. */
export const maxSendTime = 10_000

/** Maximum number of bytes that are read of a response body. */
const maxResponse = 8_192

/** Maximum number of informational responses (1xx) before the final one. */
const maxInformation = 10

/** The reason for a missing response; the values are those of the contract. */
export type SendFault =
  'address_refused' | 'timeout' | 'connection_failed' | 'tls_failed' | 'response_invalid'

/** A request that got no response. */
export class SendFailed extends Error {
  override readonly name = 'SendFailed'
  readonly fault: SendFault

  constructor(fault: SendFault, cause?: unknown) {
    super(`No response: ${fault}`, { cause })
    this.fault = fault
  }
}

export interface SentResponse {
  readonly status: number
  /** At most the first 8 KiB of the body; less if the connection was lost. */
  readonly body: string
  /** The Retry-After header. */
  readonly retryAfter: string | null
}

export interface Message {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Resolves a host name to its addresses. Rejects if it has none. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

export interface SenderOptions {
  readonly rules: AddressRules
  /** Overridden by tests. */
  readonly resolve?: Resolve | undefined
  /** Overridden by tests, in milliseconds. */
  readonly time?: number | undefined
}

/** Connections that consecutive requests reuse. */
export interface Connections {
  readonly http: HttpAgent
  readonly https: HttpsAgent
  close(): void
}

export const openConnections = (): Connections => {
  const http = new HttpAgent({ keepAlive: true, maxSockets: 1 })
  const https = new HttpsAgent({ keepAlive: true, maxSockets: 1 })
  return {
    http,
    https,
    close() {
      http.destroy()
      https.destroy()
    },
  }
}

/**
 * Sends a request, on a new connection unless `connections` are passed.
 *
 * @throws SendFailed, or the reason of `stop`
 */
export type Send = (message: Message, stop: AbortSignal, connections?: Connections) => Promise<SentResponse>

/**
 * A host name is resolved once per connection, and the connection goes to the checked address. A name whose address changes
 * between the check and the connection (DNS rebinding) therefore gains nothing. Reused connections keep their checked address.
 */
export const createSend = ({ rules, resolve, time = maxSendTime }: SenderOptions): Send => {
  const addressesOf = resolve ?? resolveWith(rules)
  const lookup: LookupFunction = (hostname, options, done) => {
    const answer = async (): Promise<void> => {
      const found = await addressesOf(hostname).catch(() => [])
      const [first, ...others] = found.filter(({ address }) => rules.allows(hostname, address))
      if (first === undefined) done(new SendFailed('address_refused'), '', 0)
      else if (options.all === true) done(null, [first, ...others])
      else done(null, first.address, first.family)
    }
    void answer()
  }

  return async ({ url: text, headers, body }, stop, connections) => {
    const url = new URL(text)
    // Node calls the lookup function for names only, so an address is checked here.
    const hostname = hostnameOf(url)
    if (isIP(hostname) > 0 && !rules.allows(hostname, hostname)) throw new SendFailed('address_refused')
    const timeout = AbortSignal.timeout(time)
    const signal = AbortSignal.any([timeout, stop])
    const options = {
      method: 'POST',
      agent: connections?.[url.protocol === 'https:' ? 'https' : 'http'] ?? false,
      lookup,
      signal,
      headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) },
    }
    try {
      const response = await exchange(url, options, body)
      const { statusCode: status = 0 } = response
      // Node also passes on 101, and numbers that are not a valid status.
      if (status < 200) {
        response.destroy()
        throw new SendFailed('response_invalid')
      }
      return {
        status,
        body: await beginningOf(response),
        retryAfter: response.headers['retry-after'] ?? null,
      }
    } catch (error) {
      stop.throwIfAborted()
      throw timeout.aborted ? new SendFailed('timeout', error) : failureOf(error)
    }
  }
}

/** Resolves when the head of the response has arrived. */
const exchange = (url: URL, options: RequestOptions, body: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? requestHttps(url, options) : requestHttp(url, options)
    request.once('response', resolve)
    // An unrequested upgrade. Without a listener, Node would emit neither a response nor an error.
    request.once('upgrade', (_, socket) => {
      socket.destroy()
      reject(new SendFailed('response_invalid'))
    })
    let informed = 0
    request.on('information', () => {
      if ((informed += 1) > maxInformation) request.destroy(new SendFailed('response_invalid'))
    })
    // Enforces the time limit in every state of the connection.
    options.signal?.addEventListener('abort', () => reject(options.signal?.reason), { once: true })
    request.on('error', (error) => {
      // The receiver may have closed a connection while it was idle.
      if (request.reusedSocket && !options.signal?.aborted && 'code' in error && error.code === 'ECONNRESET')
        resolve(exchange(url, { ...options, agent: false }, body))
      else reject(error)
    })
    request.end(body)
  })

/**
 * Queries name servers directly, because the system's resolver would occupy the threads that hash passwords and read files.
 * Names that the operator allows use the system's resolver, since they may be in the hosts file.
 */
const resolveWith = (rules: AddressRules): Resolve => {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 })
  return async (hostname) => {
    if (rules.names(hostname)) return lookUpAll(hostname)
    const [v4, v6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    return [
      ...(v4.status === 'fulfilled' ? v4.value.map((address) => ({ address, family: 4 })) : []),
      ...(v6.status === 'fulfilled' ? v6.value.map((address) => ({ address, family: 6 })) : []),
    ]
  }
}

const lookUpAll = (hostname: string): Promise<readonly LookupAddress[]> =>
  new Promise((resolve, reject) => {
    lookUpLocally(hostname, { all: true }, (error, addresses) => {
      if (error) reject(error)
      else resolve(addresses)
    })
  })

/** The beginning of a response body. Never rejects: the status alone decides whether a delivery has succeeded. */
const beginningOf = async (response: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response) {
      if (!Buffer.isBuffer(chunk)) break
      chunks.push(chunk)
      size += chunk.length
      if (size >= maxResponse) break
    }
  } catch {
    // The connection was lost or the time limit has passed.
  }
  // The next request can reuse the connection only if this response is complete.
  if (!response.complete) response.destroy()
  const bytes = Buffer.concat(chunks).subarray(0, maxResponse)
  // PostgreSQL cannot store U+0000.
  return bytes.toString('utf8').replaceAll('\0', '\u{fffd}')
}

const failureOf = (error: unknown): SendFailed => {
  if (error instanceof SendFailed) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (/^(HPE_|ERR_HTTP)/.test(code)) return new SendFailed('response_invalid', error)
  if (/CERT|TLS|SSL|EPROTO|SELF_SIGNED|UNABLE_TO/.test(code)) return new SendFailed('tls_failed', error)
  return new SendFailed('connection_failed', error)
}
