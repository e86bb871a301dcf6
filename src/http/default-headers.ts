import type { FastifyInstance } from 'fastify'
import { version } from '../domain/shared/version.ts'

type Headers = Readonly<Record<string, string>>

/**
 * Default headers of every response: the version of the contract, and that it must not be cached, framed or executed. Helmet cannot set
 * them, because it is a hook, and malformed requests are answered without running any hook.
 */
const defaults: Headers = {
  'api-version': version,
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  // Restricts embedding only; requests that CORS_ORIGINS allows still work.
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Without TLS, browsers ignore HSTS (RFC 6797 §8.1) and warn about COOP on the console. */
const tlsDefaults: Headers = {
  ...defaults,
  'strict-transport-security': 'max-age=31536000',
  'cross-origin-opener-policy': 'same-origin',
}

/** Clients use TLS if the request or PUBLIC_URL is https. */
export const defaultHeaders = (protocol: string, publicUrl: string): Headers =>
  protocol === 'https' || publicUrl.startsWith('https:') ? tlsDefaults : defaults

/** Sets the default headers, which handlers can override. */
export const setDefaultHeaders = (app: FastifyInstance, publicUrl: string): void => {
  app.addHook('onRequest', ({ protocol }, reply, done) => {
    reply.headers(defaultHeaders(protocol, publicUrl))
    done()
  })
}
