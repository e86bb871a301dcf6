import ipaddr from 'ipaddr.js'
import { isIP } from 'node:net'

/**
 * The addresses that webhooks may be sent to. Users choose the URLs, so requests must not reach the service's own machine or
 * network, or the metadata service of a cloud (server-side request forgery).
 */
export interface AddressRules {
  /** Whether the operator allows a host by its name. */
  names(hostname: string): boolean
  /** Whether a connection to an address may be opened for a host name. */
  allows(hostname: string, address: string): boolean
  /** Whether a URL can be refused without resolving its host. */
  refuses(url: URL): boolean
}

/** `allowed` are the host names, addresses and CIDR ranges of WEBHOOK_ALLOW. Public addresses are always allowed. */
export const createAddressRules = (allowed: readonly string[]): AddressRules => {
  const names = new Set(allowed.filter((entry) => !isAddressOrRange(entry)).map(canonicalName))
  const ranges = allowed.filter(isAddressOrRange).map(parseRange)

  const isNamed = (hostname: string): boolean => names.has(canonicalName(hostname))

  const allows = (hostname: string, text: string): boolean => {
    const address = parseAddress(text)
    return (
      isNamed(hostname) ||
      (address !== null && (isPublic(address) || ranges.some((range) => isWithin(address, range))))
    )
  }
  return {
    names: isNamed,
    allows,
    refuses(url) {
      const hostname = hostnameOf(url)
      if (isIP(hostname) > 0) return !allows(hostname, hostname)
      return isLocalName(canonicalName(hostname)) && !isNamed(hostname)
    },
  }
}

/** The host of a URL: a name, or an address without brackets. */
export const hostnameOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, '$1')

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = [Address, number]

const canonicalName = (name: string): string => name.toLowerCase().replace(/\.$/, '')

/** Names that RFC 6761 reserves for the machine itself. */
const isLocalName = (name: string): boolean => name === 'localhost' || name.endsWith('.localhost')

const isAddressOrRange = (entry: string): boolean => isIP(entry.replace(/\/.*/, '')) > 0

const parseRange = (entry: string): Range => {
  if (entry.includes('/')) return ipaddr.parseCIDR(entry)
  const address = ipaddr.parse(entry)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

const isWithin = (address: Address, [base, bits]: Range): boolean =>
  address.kind() === base.kind() && address.match(base, bits)

/** Null for text that is not an address. An IPv4 address within an IPv6 address (mapped, NAT64) is unwrapped. */
const parseAddress = (text: string): Address | null => {
  if (isIP(text) === 0) return null
  const address = ipaddr.process(text)
  return isWithin(address, nat64) ? new ipaddr.IPv4(address.toByteArray().slice(-4)) : address
}

/** The NAT64 prefix (RFC 6052 §2.1). */
const nat64 = ipaddr.parseCIDR('64:ff9b::/96')

/** The global unicast IPv6 addresses that IANA has allocated. */
const globalUnicast = ipaddr.parseCIDR('2000::/3')

/** The address of Azure's platform services: private to each virtual machine, but in a public range. */
const azurePlatform = ipaddr.parse('168.63.129.16')

const isPublic = (address: Address): boolean =>
  address.range() === 'unicast' &&
  (address.kind() === 'ipv4' ? !isWithin(address, [azurePlatform, 32]) : isWithin(address, globalUnicast))
