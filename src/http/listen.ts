/**
 * The address to listen on for a configured host. `localhost` becomes 127.0.0.1: for the name, Fastify would open a second
 * server on ::1, without our `clientError`, `checkContinue` and `checkExpectation` handlers, and not wait for it on shutdown.
 * Clients that resolve `localhost` to ::1 fall back to 127.0.0.1.
 */
export const listenAddress = (host: string): string => (host === 'localhost' ? '127.0.0.1' : host)
