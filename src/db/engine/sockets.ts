import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'

/** The options of the driver that say where the server is. */
interface Address {
  readonly host: readonly string[]
  readonly port: readonly number[]
  /** A Unix socket. */
  readonly path?: string | false
}

/** New connections of one pool in a second; a start takes ten. */
const maxPerSecond = 20

/**
 * Makes the sockets of a pool, at a bounded rate: a connection that is closed before the server has said anything (by a
 * proxy whose server is away) is opened again by the driver at once, for ever, and without an error to any statement.
 */
export const socketsAtBoundedRate = (): ((address: Address) => Promise<Duplex>) => {
  let second = 0
  let opened = 0
  let nextHost = 0

  const untilAllowed = async (): Promise<void> => {
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
    await untilAllowed()
    const index = nextHost % port.length
    nextHost += 1
    return connected(path ? connect(path) : connectTo(host[index] ?? '', port[index] ?? 0))
  }
}

/** The name of the host goes with the socket: it is what the driver holds the server's certificate against. */
const connectTo = (host: string, port: number): Socket => Object.assign(connect(port, host), { host })

const connected = async (socket: Socket): Promise<Duplex> => {
  try {
    await once(socket, 'connect')
    return socket
  } catch (error) {
    return failing(error)
  }
}

/** A socket that fails as soon as something is written: the driver learns of a failure by its sockets alone. */
const failing = (error: unknown): Duplex =>
  new Duplex({
    read() {},
    write: (_chunk, _encoding, done) => done(error instanceof Error ? error : new Error(String(error))),
  })
