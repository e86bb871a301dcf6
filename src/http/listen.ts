/**
 * The address to listen on for a configured host. `localhost` is 127.0.0.1 only: given the name, Fastify opens a second
 * server for ::1, on which no `clientError`, `checkContinue` and `checkExpectation` handlers run and which a stop does not
 * wait for. Clients that resolve `localhost` to ::1 fall back to 127.0.0.1.
 */
export const listenAddress = (host: string): string => (host === 'localhost' ? '127.0.0.1' : host)
