import type { FastifyInstance } from 'fastify'

type Headers = Readonly<Record<string, string>>

/**
 * What every answer tells a browser, unless it knows better: to run, frame and keep nothing of it. Plain values, since
 * answers to requests that reach no hook have them too.
 */
const always: Headers = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  // About embedding alone: what CORS_ORIGINS opens is fetched all the same.
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Without TLS browsers ignore the one (RFC 6797 §8.1) and complain of the other on the console. */
const overTls: Headers = {
  ...always,
  'strict-transport-security': 'max-age=31536000',
  'cross-origin-opener-policy': 'same-origin',
}

/** The headers of an answer, by how its request came or how PUBLIC_URL says that requests come. */
export const securityHeaders = (protocol: string, publicUrl: string): Headers =>
  protocol === 'https' || publicUrl.startsWith('https:') ? overTls : always

/** Sets the headers of every answer; whoever answers may set others in their place. */
export const setSecurityHeaders = (app: FastifyInstance, publicUrl: string): void => {
  app.addHook('onRequest', ({ protocol }, reply, done) => {
    reply.headers(securityHeaders(protocol, publicUrl))
    done()
  })
}
