import { isAllowedEndpoint } from '../config/oidc.ts'

/** The limits of requests to a provider. */
export interface FetchLimits {
  /** Milliseconds. */
  readonly timeout: number
  /** Bytes of a response, decompressed. */
  readonly maxBytes: number
}

export const fetchLimits: FetchLimits = { timeout: 5_000, maxBytes: 262_144 }

/** A response of a provider that is not used. The message says why. */
export class ResponseRefused extends Error {
  override readonly name = 'ResponseRefused'
}

/** The part of `fetch` that openid-client and jose use. The bodies of requests are forms. */
export type BoundedFetch = (
  url: string,
  options: {
    readonly method: string
    readonly headers: NonNullable<RequestInit['headers']>
    readonly body?: unknown
  },
) => Promise<Response>

/** Sends requests to a provider: to allowed endpoints of its issuer, without redirects, and bounded in time and size. */
export const createBoundedFetch =
  (issuer: URL, { timeout, maxBytes }: FetchLimits): BoundedFetch =>
  async (url, { method, headers, body }) => {
    if (!isAllowedEndpoint(issuer, new URL(url)))
      throw new ResponseRefused(`${originOf(url)} is not an https:// URL, or is of this machine`)
    const response = await fetch(url, {
      method,
      headers,
      ...(body instanceof URLSearchParams && { body }),
      redirect: 'manual',
      signal: AbortSignal.timeout(timeout),
    })
    if (response.status >= 300 && response.status < 400)
      throw new ResponseRefused(`${originOf(url)} answers with a redirect (${response.status})`)
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      size += chunk.length
      // Leaving the loop closes the connection.
      if (size > maxBytes)
        throw new ResponseRefused(`${originOf(url)} answers with more than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
    const { status, statusText } = response
    return new Response(size === 0 ? null : Buffer.concat(chunks), {
      status,
      statusText,
      headers: response.headers,
    })
  }

/** Without the path and the query, which can have secrets. */
const originOf = (url: string): string => new URL(url).origin
