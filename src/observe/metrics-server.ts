import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { listenAddress } from '../http/listen.ts'

export interface MetricsSource {
  readonly contentType: string
  metrics(): Promise<string>
}

interface MetricsServerOptions {
  readonly host: string
  /** 0 means any free port. */
  readonly port: number
  /** Bearer token; null means no authentication. */
  readonly token: string | null
}

export interface MetricsServer {
  readonly port: number
  close(): Promise<void>
}

/** Serves GET /metrics on a separate port, which need not be public. */
export const serveMetrics = async (
  source: MetricsSource,
  { host, port, token }: MetricsServerOptions,
): Promise<MetricsServer> => {
  const server = createServer((request, response) => {
    answer(source, token, request, response).catch((error: unknown) => response.destroy(error as Error))
  })
  server.listen(port, listenAddress(host))
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

const answer = async (
  source: MetricsSource,
  token: string | null,
  { method, url, headers }: IncomingMessage,
  response: ServerResponse,
): Promise<void> => {
  if (url !== '/metrics') return end(response, 404)
  if (method !== 'GET' && method !== 'HEAD') return end(response, 405, { allow: 'GET, HEAD' })
  if (token !== null && !isBearer(headers.authorization ?? '', token))
    return end(response, 401, { 'www-authenticate': 'Bearer realm="taskwright metrics"' })
  end(response, 200, { 'content-type': source.contentType }, await source.metrics())
}

const end = (
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): void => void response.writeHead(status, { 'cache-control': 'no-store', ...headers }).end(body)

/** Compares digests, because timingSafeEqual needs equal lengths. */
const isBearer = (authorization: string, token: string): boolean =>
  timingSafeEqual(digest(authorization.replace(/^bearer +/i, 'Bearer ')), digest(`Bearer ${token}`))

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
