import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'

/** The driver options with the server's address. */
export interface Address {
  readonly host: readonly string[]
  readonly port: readonly number[]
  /** A Unix socket. */
  readonly path?: string | false
}

/** New connections per second. A start opens ten. */
const maxPerSecond = 20

/**
 * Opens sockets at a limited rate. When a connection closes before the server has sent anything (such as by a proxy whose
 * server is down), the driver reconnects at once, endlessly, and without an error for any statement.
 */
export const rateLimitedSockets = (): ((address: Address) => Promise<Duplex>) => {
  let second = 0
  let opened = 0
  let nextHost = 0

  const waitForSlot = async (): Promise<void> => {
    for (;;) {
      const now = performance.now()
      if (Math.floor(now / 1_000) !== second) {
        second = Math.floor(now / 1_000)
        opened = 0
      }
      opened += 1
      if (opened <= maxPerSecond) return
      await pause(1_000 - (now % 1_000))
    }
  }

  return async ({ host, port, path }) => {
    await waitForSlot()
    const index = nextHost % port.length
    nextHost += 1
    return connectedOrFailing(path ? connect(path) : connectTo(host[index] ?? '', port[index] ?? 0))
  }
}

/** Sets `host` on the socket: the driver verifies the server's certificate against it. */
const connectTo = (host: string, port: number): Socket => Object.assign(connect(port, host), { host })

const connectedOrFailing = async (socket: Socket): Promise<Duplex> => {
  try {
    await once(socket, 'connect')
    return socket
  } catch (error) {
    return failingSocket(error)
  }
}

/** A socket that fails at the first write: the driver detects failures only through its sockets. */
const failingSocket = (error: unknown): Duplex =>
  new Duplex({
    read() {},
    write: (_chunk, _encoding, done) => done(error instanceof Error ? error : new Error(String(error))),
  })
