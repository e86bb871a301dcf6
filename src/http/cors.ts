import type { FastifyInstance, FastifyReply } from 'fastify'
import { isIP } from 'node:net'
import type { MethodsOf } from './routes.ts'

/** Origins whose pages may read responses; `*` means all. */
export type CorsOrigins = '*' | readonly string[]

type Headers = Readonly<Record<string, string>>

/** Response headers of the contract that are not CORS-safelisted. */
const exposedHeaders = [
  'API-Version',
  'Accept-Encoding',
  'Accept-Patch',
  'Accept-Ranges',
  'Allow',
  'Content-Disposition',
  'Content-Location',
  'Content-Range',
  'ETag',
  'Idempotency-Replayed',
  'Link',
  'Location',
  'RateLimit',
  'RateLimit-Policy',
  'Repr-Digest',
  'Retry-After',
  'Task-ETag',
  'Tus-Checksum-Algorithm',
  'Tus-Extension',
  'Tus-Max-Size',
  'Tus-Resumable',
  'Tus-Version',
  'Upload-Expires',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'WWW-Authenticate',
  'X-Accel-Buffering',
  'X-Request-Id',
].join(', ')

/** Request headers of the contract, which are always allowed. */
const contractHeaders = [
  'Authorization',
  'Content-Digest',
  'Content-Type',
  'Idempotency-Key',
  'If-Match',
  'If-Modified-Since',
  'If-None-Match',
  'If-Range',
  'If-Unmodified-Since',
  'Last-Event-ID',
  'Mcp-Method',
  'Mcp-Name',
  'MCP-Protocol-Version',
  'Range',
  'Tus-Resumable',
  'Upload-Checksum',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'X-HTTP-Method-Override',
  'X-Request-Id',
]

/** Seconds for which browsers may cache a preflight response. Chromium caps it at this value. */
const preflightAge = '7200'

/** CORS headers for a request from `origin`. Tokens travel in a header, so credentials are never allowed. */
export const corsHeaders = (allowed: CorsOrigins, origin: string | undefined): Headers => {
  if (allowed === '*') return allowOrigin('*')
  if (allowed.length === 0) return {}
  const vary = { vary: 'Origin' }
  return origin !== undefined && allowed.includes(origin) ? { ...vary, ...allowOrigin(origin) } : vary
}

const allowOrigin = (origin: string): Headers => ({
  'access-control-allow-origin': origin,
  'access-control-expose-headers': exposedHeaders,
})

interface OwnOrigin {
  readonly corsOrigins: CorsOrigins
  /** Empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
}

/**
 * Whether a request comes from no web page, from a page of this service, or from an allowed origin. Host alone proves nothing:
 * the host name of a foreign page can resolve to this service (DNS rebinding), so that Origin and Host agree. IP addresses and
 * localhost cannot be rebound.
 */
export const isTrustedOrigin = (
  { origin, host }: { readonly origin?: string | undefined; readonly host?: string | undefined },
  { corsOrigins, publicUrl }: OwnOrigin,
): boolean => {
  if (origin === undefined || corsOrigins === '*' || corsOrigins.includes(origin)) return true
  if (!URL.canParse(origin)) return false
  if (publicUrl !== '' && new URL(publicUrl).origin === origin) return true
  const { host: ownHost, hostname } = new URL(origin)
  return ownHost === host && (hostname === 'localhost' || isIP(hostname.replaceAll(/[[\]]/g, '')) !== 0)
}

interface CorsOptions {
  readonly origins: CorsOrigins
  /** Request headers that pages may send, apart from those of the contract. */
  readonly headers: readonly string[]
  readonly methodsOf: MethodsOf
}

/** Adds CORS headers, and answers preflights before authentication. */
export const enableCors = (
  app: FastifyInstance,
  { origins: allowed, headers: otherHeaders, methodsOf }: CorsOptions,
): void => {
  if (allowed.length === 0) return
  const allowedHeaders = [...contractHeaders, ...otherHeaders].join(', ')
  app.addHook('onRequest', async ({ method, url, headers }, reply) => {
    const cors = corsHeaders(allowed, headers.origin)
    reply.headers(cors)
    if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return
    const methods = methodsOf(url)
    if (methods === null || !('access-control-allow-origin' in cors)) return
    return reply
      .code(204)
      .headers({
        'access-control-allow-headers': allowedHeaders,
        'access-control-allow-methods': methods.join(', '),
        'access-control-max-age': preflightAge,
      })
      .send()
  })
}

/** Adds a request header name to Vary. */
export const addVary = (reply: FastifyReply, name: string): FastifyReply =>
  reply.header('vary', reply.hasHeader('vary') ? `${String(reply.getHeader('vary'))}, ${name}` : name)
