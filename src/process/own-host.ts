import { once } from 'node:events'
import { createServer } from 'node:net'
import { ConfigError } from '../config/config.ts'
import { listenAddress } from '../http/listen.ts'

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: 'cannot be resolved to an address',
  EAI_AGAIN: 'cannot currently be resolved to an address',
  EADDRNOTAVAIL: 'is not an address of this machine',
  EAFNOSUPPORT: 'has an address family that this machine does not support',
}

/**
 * Checks that this process can listen on a host, by listening on a free port for a moment.
 *
 * @throws ConfigError that names the variable
 */
export const expectOwnHost = async (variable: string, host: string): Promise<void> => {
  const server = createServer().listen({ host: listenAddress(host), port: 0 })
  try {
    await once(server, 'listening')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const reason = reasons[code] ?? `cannot be bound: ${String(error)}`
    throw new ConfigError(`${variable} ${host} ${reason} (example: 0.0.0.0 for every IPv4 address)`, {
      cause: error,
    })
  }
  server.close()
}
