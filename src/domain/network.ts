import { isIPv4, isIPv6 } from 'node:net'

/**
 * The network that a client's address stands for: an IPv4 address for itself, and an IPv6 address for its /64, in the
 * text of RFC 5952, since one client has all of that. What is no address stays as it is.
 */
export const networkOf = (address: string): string => {
  const bare = withoutPort(address).replace(/%.*/, '')
  if (!isIPv6(bare)) return bare
  const groups = groupsOf(bare)
  return isMapped(groups) ? dotted(groups.slice(6)) : `${canonical(`${groups.slice(0, 4).join(':')}::`)}/64`
}

/** The /16 of an IPv4 network and the /32 of an IPv6 one, given what `networkOf` returns; anything else as it is. */
export const widerNetworkOf = (network: string): string => {
  if (isIPv4(network)) return `${network.split('.', 2).join('.')}.0.0/16`
  if (!network.endsWith('/64')) return network
  return `${canonical(`${groupsOf(network.slice(0, -3)).slice(0, 2).join(':')}::`)}/32`
}

/** Some proxies write X-Forwarded-For with the client's port, which changes with each connection. */
const withoutPort = (address: string): string =>
  /^(\d+(?:\.\d+){3}):\d+$/.exec(address)?.[1] ?? /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? address

const canonical = (address: string): string => new URL(`http://[${address}]`).hostname.slice(1, -1)

/** The eight groups, in hexadecimal without leading zeros. */
const groupsOf = (address: string): readonly string[] => {
  const [left = [], right = []] = canonical(address)
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''))
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0')
  return [...left, ...zeros, ...right]
}

/** ::ffff:0:0/96, in which an IPv4 client appears on an IPv6 socket (RFC 4291 §2.5.5.2). */
const isMapped = (groups: readonly string[]): boolean => groups.slice(0, 6).join(':') === '0:0:0:0:0:ffff'

const dotted = (groups: readonly string[]): string =>
  groups
    .map((group) => parseInt(group, 16))
    .flatMap((number) => [number >> 8, number & 255])
    .join('.')
