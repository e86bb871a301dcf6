import type { IncomingMessage } from 'node:http'

/** The methods that not every HTTP library can send. */
const overridable = new Set(['PATCH', 'DELETE'])

/**
 * Makes of a POST to an upload what its X-HTTP-Method-Override says, as tus 1.0.0 wants it: Java's HttpURLConnection, and
 * so tus's own client for Java, sends no PATCH. To be called before the request is routed.
 */
export const overrideMethod = (request: IncomingMessage, path: string): void => {
  const { 'x-http-method-override': method } = request.headers
  if (request.method !== 'POST' || !path.startsWith('/uploads/')) return
  if (typeof method === 'string' && overridable.has(method)) request.method = method
}
