import type { IncomingMessage } from 'node:http'

/** Methods that can be sent as POST. */
const overridable = new Set(['PATCH', 'DELETE'])

/**
 * Applies X-HTTP-Method-Override to a POST to an upload (tus 1.0.0). Java's HttpURLConnection, which tus-java-client uses,
 * cannot send PATCH. Call before routing.
 */
export const overrideMethod = (request: IncomingMessage, path: string): void => {
  const { 'x-http-method-override': method } = request.headers
  if (request.method !== 'POST' || !path.startsWith('/uploads/')) return
  if (typeof method === 'string' && overridable.has(method)) request.method = method
}
