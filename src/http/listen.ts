import type { FastifyInstance } from 'fastify'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { httpUrl } from './url.ts'

interface Place {
  readonly addresses: readonly string[]
  readonly port: number
  readonly backlog: number
}

/** What a host means to who listens: `localhost` has two addresses on most machines. */
export const addressesOf = async (host: string): Promise<readonly string[]> => {
  if (host !== 'localhost') return [host]
  const found = await lookup(host, { all: true }).catch(() => [{ address: host }])
  return [...new Set(found.map(({ address }) => address))]
}

/**
 * Listens on one address or more. Fastify would make another server for the second one, which knows nothing of our answers to
 * what is no HTTP, and whose requests no stop waits for: here one server has the connections of all.
 */
export const listen = async (app: FastifyInstance, { addresses, port, backlog }: Place): Promise<void> => {
  const [first, ...others] = addresses
  const doors = others.map((address) => ({ address, door: openTo(app) }))
  let closing: Promise<unknown> = Promise.resolve()
  app.addHook('preClose', async () => {
    closing = Promise.all(doors.map(({ door }) => closed(door)))
  })
  app.addHook('onClose', () => closing.then(() => undefined))

  await app.listen({ ...(first !== undefined && { host: first }), port, backlog })
  const { port: taken } = app.server.address() as AddressInfo
  for (const { address, door } of doors) {
    door.listen({ host: address, port: taken, backlog })
    if (await isListening(door)) app.log.info(`Server listening at ${httpUrl(address, taken)}`)
  }
}

/** The options are those of an HTTP server. */
const openTo = (app: FastifyInstance): Server =>
  createServer({ allowHalfOpen: true, noDelay: true }, (socket) => app.server.emit('connection', socket))

/** Resolves to false when the machine does not have the address, though its name has. */
const isListening = async (door: Server): Promise<boolean> => {
  try {
    await once(door, 'listening')
    return true
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return false
    throw error
  }
}

/** Resolves when the last connection has ended. */
const closed = (door: Server): Promise<void> => new Promise((resolve) => door.close(() => resolve()))
