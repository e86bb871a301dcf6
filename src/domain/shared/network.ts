import { isIPv4, isIPv6 } from 'node:net'

/**
 * The network of a client: an IPv4 address itself, or the /64 of an IPv6 address in RFC 5952 form, because one client usually
 * has a whole /64. Text that is not an address is returned unchanged.
 */
export const networkOf = (address: string): string => {
  const bare = withoutPort(address).replace(/%.*/, '')
  if (!isIPv6(bare)) return bare
  const groups = groupsOf(bare)
  return isMapped(groups)
    ? dottedQuad(groups.slice(6))
    : `${canonical(`${groups.slice(0, 4).join(':')}::`)}/64`
}

/** The /16 of an IPv4 network or the /32 of an IPv6 network, as returned by `networkOf`. Other text is returned unchanged. */
export const widerNetworkOf = (network: string): string => {
  if (isIPv4(network)) return `${network.split('.', 2).join('.')}.0.0/16`
  if (!network.endsWith('/64')) return network
  return `${canonical(`${groupsOf(network.slice(0, -3)).slice(0, 2).join(':')}::`)}/32`
}

/** Some proxies write X-Forwarded-For with the client's port, which changes with each connection. */
const withoutPort = (address: string): string =>
  /^(\d+(?:\.\d+){3}):\d+$/.exec(address)?.[1] ?? /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? address

const canonical = (address: string): string => new URL(`http://[${address}]`).hostname.slice(1, -1)

/** The eight groups of an IPv6 address, in hexadecimal without leading zeros. */
const groupsOf = (address: string): readonly string[] => {
  const [left = [], right = []] = canonical(address)
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''))
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0')
  return [...left, ...zeros, ...right]
}

/** Whether the address is IPv4-mapped: an IPv4 client on an IPv6 socket, in ::ffff:0:0/96 (RFC 4291 §2.5.5.2). */
const isMapped = (groups: readonly string[]): boolean => groups.slice(0, 6).join(':') === '0:0:0:0:0:ffff'

const dottedQuad = (groups: readonly string[]): string =>
  groups
    .map((group) => parseInt(group, 16))
    .flatMap((number) => [number >> 8, number & 255])
    .join('.')
