import { once } from 'node:events'
import { createServer } from 'node:net'
import { ConfigError } from '../config/config.ts'
import { listenAddress } from '../http/listen.ts'

/** An address to listen on, by the variables that configure it. */
export interface OwnAddress {
  readonly prefix: '' | 'METRICS_'
  readonly host: string
  readonly port: number
}

/** The service cannot listen on an address now, but may later. */
export class AddressUnavailable extends Error {
  override readonly name = 'AddressUnavailable'
}

const hostFaults: Readonly<Record<string, string>> = {
  ENOTFOUND: 'cannot be resolved to an address',
  EADDRNOTAVAIL: 'is not an address of this machine',
  EAFNOSUPPORT: 'has an address family that this machine does not support',
}

/** The error for the operator, for an error of `listen`. */
export const listenError = ({ prefix, host, port }: OwnAddress, error: unknown): Error => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const options = { cause: error }
  if (code === 'EADDRINUSE')
    return new AddressUnavailable(
      `${prefix}PORT ${port} is in use by another program (EADDRINUSE). Stop that program, or choose another port`,
      options,
    )
  if (code === 'EAI_AGAIN')
    return new AddressUnavailable(`${prefix}HOST ${host} cannot currently be resolved to an address`, options)
  if (code === 'EACCES')
    return new ConfigError(
      `${prefix}PORT ${port} is not allowed for this user. Choose a port from 1024, and let a reverse proxy listen on this one`,
      options,
    )
  const fault = hostFaults[code] ?? `cannot be bound: ${String(error)}`
  return new ConfigError(`${prefix}HOST ${host} ${fault} (example: 0.0.0.0 for every IPv4 address)`, options)
}

/**
 * Checks that this process can listen on an address, by listening on it for a moment. Port 0 stands for any free port.
 *
 * @throws AddressUnavailable
 * @throws ConfigError that names the variable
 */
export const expectOwnAddress = async (address: OwnAddress): Promise<void> => {
  const server = createServer().listen({ host: listenAddress(address.host), port: address.port })
  try {
    await once(server, 'listening')
  } catch (error) {
    throw listenError(address, error)
  }
  server.close()
}
