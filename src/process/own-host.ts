import { once } from 'node:events'
import { createServer } from 'node:net'
import { ConfigError } from '../config/config.ts'
import { addressesOf } from '../http/listen.ts'

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: 'cannot be resolved to an address',
  EAI_AGAIN: 'cannot currently be resolved to an address',
  EADDRNOTAVAIL: 'is not an address of this machine',
  EAFNOSUPPORT: 'has an address family that this machine does not support',
}

/**
 * Checks that this process can listen on a host, by doing so for a moment on a free port.
 *
 * @throws ConfigError that names the variable
 */
export const expectOwnHost = async (variable: string, host: string): Promise<void> => {
  const attempts = await Promise.allSettled((await addressesOf(host)).map(listenBriefly))
  const failed = attempts.find((attempt) => attempt.status === 'rejected')
  if (failed === undefined || attempts.some((attempt) => attempt.status === 'fulfilled')) return
  const error: unknown = failed.reason
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const reason = reasons[code] ?? `cannot be bound: ${String(error)}`
  throw new ConfigError(`${variable} ${host} ${reason} (example: 0.0.0.0 for every IPv4 address)`, {
    cause: error,
  })
}

const listenBriefly = async (host: string): Promise<void> => {
  const server = createServer().listen({ host, port: 0 })
  await once(server, 'listening')
  server.close()
}
