import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { canonicalEmail } from '../domain/accounts/email-address.ts'
import { hasTooManyMarks } from '../domain/shared/text.ts'

/** An SMTP server. */
export interface SmtpServer {
  readonly host: string
  readonly port: number
  /**
   * The encryption of the connection. Passwords are sent to other machines over TLS only. A mail server on this machine needs
   * no encryption, and rarely has a certificate that can be verified.
   */
  readonly tls: 'implicit' | 'starttls' | 'starttls_if_offered' | 'none'
  /** Contains a password. */
  readonly auth: { readonly user: string; readonly pass: string } | null
}

export interface MailAddress {
  /** The display name; may be empty. */
  readonly name: string
  readonly address: string
}

/** A bucket and its S3 server. */
export interface S3Location {
  readonly bucket: string
  /** The prefix of all object names: empty, or ends in a slash. */
  readonly prefix: string
  /** http:// or https:// URL of the server; null for AWS. */
  readonly endpoint: string | null
  readonly region: string
  /** Whether the bucket is part of the path of a URL instead of its host name. */
  readonly pathStyle: boolean
}

/** The value of a variable, or the error in its text: a predicate that follows the name of the variable. */
export type Parsed<T> = { readonly value: T } | { readonly fault: string }

/** A host name or an IP address. */
export function parseHost(text: string): Parsed<string> {
  const good = isIP(text) > 0 || /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(text)
  return good ? { value: text } : { fault: 'must be a host name or an IP address, without a port' }
}

/** A TCP port; 0 lets the system choose. */
export function parsePort(text: string): Parsed<number> {
  const port = decimal(text)
  return port !== null && port <= 65535
    ? { value: port }
    : { fault: 'must be a whole number from 0 to 65535' }
}

/** A postgres:// URL, which may name several hosts. */
export function parseDatabaseUrl(text: string): Parsed<string> {
  if (!/^postgres(ql)?:\/\//.test(text)) return { fault: 'must begin with postgres:// or postgresql://' }
  const url = URL.parse(firstHostOnly(text))
  const [, authority = '', rest = ''] = /:\/\/([^/?#]*)(.*)/.exec(text) ?? []
  // The driver takes what follows the first @ for the host.
  const [, ...hosts] = authority.split('@')
  if (hosts.length > 1 || (hosts.length === 0 && rest.includes('@')))
    return { fault: 'has a special character in its user name or password; percent-encode it (@ is %40)' }
  if (url === null)
    return { fault: 'is not a valid URL; special characters in its password must be percent-encoded' }
  if (percentDecoded(url.username) === null || percentDecoded(url.password) === null)
    return { fault: 'has an invalid percent-encoding; encode % as %25' }
  return { value: text }
}

// The driver accepts host1:port1,host2:port2, which URL does not.
function firstHostOnly(text: string): string {
  return text.replace(/(:\/\/(?:[^/?]*@)?[^,/?]*),[^/?]*/, '$1')
}

/** A path, made absolute. */
export function parsePath(text: string): Parsed<string> {
  return text.includes('\0') ? { fault: 'must be a path' } : { value: resolve(text) }
}

/** Comma-separated secrets. Spaces next to a comma are ignored; others are part of the secret. */
export function parseSecrets(text: string): Parsed<readonly [string, ...string[]]> {
  const [active = '', ...others] = text.split(/\s*,\s*/)
  const lengths = [active, ...others].map((secret) => Buffer.byteLength(secret))
  const short = lengths.findIndex((bytes) => bytes < 32)
  if (short === -1) return { value: [active, ...others] }
  return {
    fault: `must be one or more comma-separated secrets of at least 32 bytes each; number ${short + 1} has ${lengths[short]}`,
  }
}

/** An s3:// URL. Without an endpoint it means AWS, which requires a region. Most other servers have only one region. */
export function parseStorageUrl(text: string): Parsed<S3Location> {
  const url = URL.parse(text)
  if (url?.protocol !== 's3:' || url.hostname === '') return { fault: 'must be an s3:// URL' }
  if (url.username || url.password) {
    return {
      fault: 'must not contain credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile',
    }
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(url.host)) {
    return { fault: 'must name a bucket: 3 to 63 lower-case letters, digits, dots and hyphens' }
  }
  if (!/^(\/[\w!.*'()-]+)*\/?$/.test(url.pathname) || text.includes('#')) {
    return { fault: "must have a path of letters, digits and !-_.*'() between slashes, and no fragment" }
  }
  const names = [...url.searchParams.keys()]
  const isKnown = names.every((name) => ['endpoint', 'region', 'path_style'].includes(name))
  if (!isKnown || new Set(names).size < names.length) {
    return {
      fault: 'can have the query parameters endpoint, region and path_style, each once, and nothing else',
    }
  }
  const endpoint = url.searchParams.get('endpoint')
  if (endpoint !== null && !isPlainOrigin(endpoint)) {
    return {
      fault: 'must have an http:// or https:// URL as its endpoint, without credentials, query or fragment',
    }
  }
  const region = url.searchParams.get('region') ?? (endpoint === null ? '' : 'us-east-1')
  if (!/^[\w-]+$/.test(region)) return { fault: 'must name the region of the bucket, or an endpoint' }
  const pathStyle = url.searchParams.get('path_style') ?? 'false'
  if (!/^(true|false)$/.test(pathStyle)) return { fault: 'must have true or false as its path_style' }
  const prefix = url.pathname.replace(/^\//, '').replace(/[^/]$/, '$&/')
  return { value: { bucket: url.host, prefix, endpoint, region, pathStyle: pathStyle === 'true' } }
}

function isPlainOrigin(text: string): boolean {
  const url = URL.parse(text)
  return (
    url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(text)
  )
}

/** An http:// or https:// URL; trailing slashes are removed. */
export function parsePublicUrl(text: string): Parsed<string> {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return { fault: 'must be an http:// or https:// URL' }
  if (url.username || url.password) return { fault: 'must not contain a user name or password' }
  if (/[?#]/.test(text)) return { fault: 'must not have a query or a fragment' }
  return { value: url.href.replace(/\/+$/, '') }
}

/** An http:// or https:// URL, unchanged. */
export function parseEndpoint(text: string): Parsed<string> {
  return /^https?:\/\//.test(text) && URL.canParse(text)
    ? { value: text }
    : { fault: 'must be an http:// or https:// URL' }
}

/** A Bearer token (RFC 6750 §2.1). */
export function parseMetricsToken(text: string): Parsed<string> {
  return /^[\w.~+/=-]{16,}$/.test(text)
    ? { value: text }
    : { fault: 'must have at least 16 characters, all of them valid in a Bearer token' }
}

/** The email address of an account, in canonical form. */
export function parseAccountEmail(text: string): Parsed<string> {
  const email = hasTooManyMarks(text) ? null : canonicalEmail(text)
  return email !== null && email.length <= 254
    ? { value: email }
    : { fault: 'must be an email address, with only ASCII characters before the @' }
}

/** A password, validated like the schema NewPassword of the contract. */
export function parseNewPassword(text: string): Parsed<string> {
  const password = text.normalize('NFC')
  // The contract counts code points.
  return /^[^\0]{8,256}$/u.test(password) ? { value: password } : { fault: 'must have 8 to 256 characters' }
}

/** An smtp:// or smtps:// URL. */
export function parseSmtpUrl(text: string): Parsed<SmtpServer> {
  const url = URL.parse(text)
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '') {
    return {
      fault: 'must be an smtp:// or smtps:// URL; special characters in its password must be percent-encoded',
    }
  }
  if (!/^\/?$/.test(url.pathname) || /[?#]/.test(text))
    return { fault: 'must not have a path, a query or a fragment' }
  const user = percentDecoded(url.username)
  const pass = percentDecoded(url.password)
  if (user === null || pass === null) return { fault: 'has an invalid percent-encoding; encode % as %25' }
  if ((user === '') !== (pass === '')) return { fault: 'must have a user name and a password, or neither' }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const auth = user === '' ? null : { user, pass }
  const port = url.port === '' ? null : Number(url.port)
  if (url.protocol === 'smtps:') return { value: { host, port: port ?? 465, tls: 'implicit', auth } }
  const tls = isLoopback(host) ? 'none' : auth === null ? 'starttls_if_offered' : 'starttls'
  return { value: { host, port: port ?? 587, tls, auth } }
}

/** Whether a host name or address is the loopback interface. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

/** An email address, optionally with a display name. */
export function parseMailAddress(text: string): Parsed<MailAddress> {
  const plain = String.raw`[^\s\p{Cc}<>()[\]\\,;:"@]+@[^\s\p{Cc}<>()[\]\\,;:"@]+`
  const [, name = '', inside, alone] =
    new RegExp(String.raw`^(?:([^\p{Cc}<>"]*?) *<(${plain})>|(${plain}))$`, 'u').exec(text) ?? []
  const address = inside ?? alone
  return address === undefined
    ? { fault: 'must be an email address, optionally in the form Name <address>, without quotes' }
    : { value: { name, address } }
}

/** Comma-separated IP addresses and CIDR ranges. */
export function parseProxies(text: string): Parsed<readonly string[]> {
  const entries = text.split(',').map((entry) => entry.trim())
  const bad = entries.find((entry) => !isAddressOrRange(entry))
  if (bad === undefined) return { value: entries }
  return { fault: `must be a comma-separated list of IP addresses or CIDR ranges; '${bad}' is neither` }
}

/** Comma-separated host names, IP addresses and CIDR ranges. */
export function parseHosts(text: string): Parsed<readonly string[]> {
  const entries = text.split(',').map((entry) => entry.trim())
  const bad = entries.find((entry) => !isAddressOrRange(entry) && 'fault' in parseHost(entry))
  if (bad === undefined) return { value: entries }
  return {
    fault: `must be a comma-separated list of host names, IP addresses and CIDR ranges; '${bad}' is none of them`,
  }
}

// With a prefix length of 0, any client could claim any address.
function isAddressOrRange(entry: string): boolean {
  const [address = '', length, ...rest] = entry.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  if (length === undefined) return true
  const bits = decimal(length)
  return bits !== null && bits >= 1 && bits <= (version === 4 ? 32 : 128)
}

/** A number of days, at most 100 years, so that date arithmetic cannot overflow. */
export function parseDayCount(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0 && count <= 36_500
    ? { value: count }
    : { fault: 'must be a whole number of days from 1 to 36500' }
}

/** A number of hours, at most the 30 days that any session lasts. */
export function parseSessionHours(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0 && count <= 720
    ? { value: count }
    : { fault: 'must be a whole number of hours from 1 to 720' }
}

/** A number of seconds, up to an hour. */
export function parseShutdownSeconds(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count >= 5 && count <= 3_600
    ? { value: count }
    : { fault: 'must be a whole number of seconds from 5 to 3600' }
}

/** A number of processes. Each has its own connections; a PostgreSQL server accepts 100 in total by default. */
export function parseWorkers(text: string): Parsed<number | 'auto'> {
  if (text === 'auto') return { value: text }
  const count = decimal(text)
  return count !== null && count >= 1 && count <= 128
    ? { value: count }
    : { fault: 'must be auto or a whole number from 1 to 128' }
}

/** Comma-separated origins, or `*` for all. */
export function parseOrigins(text: string): Parsed<'*' | readonly string[]> {
  if (text === '*') return { value: '*' }
  const entries = text.split(',').map((entry) => entry.trim())
  const bad = entries.find((entry) => !isOrigin(entry))
  if (bad === undefined) return { value: entries.map((entry) => new URL(entry).origin) }
  return { fault: `must be * or a comma-separated list of origins; '${bad}' is not an origin` }
}

/** Comma-separated names of header fields (RFC 9110 §5.6.2). */
export function parseHeaderNames(text: string): Parsed<readonly string[]> {
  const names = text.split(',').map((name) => name.trim())
  const bad = names.find((name) => !/^[\w!#$%&'*+.^`|~-]+$/.test(name) || name === '*')
  if (bad === undefined) return { value: names }
  return { fault: `must be a comma-separated list of header names; '${bad}' is not one` }
}

// Only a slash may follow the port; there are no wildcards in host names.
function isOrigin(entry: string): boolean {
  const url = URL.parse(entry)
  return (
    url !== null && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/` && !/[?#@*]/.test(entry)
  )
}

/** A number of bytes. */
export function parseByteCount(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0
    ? { value: count }
    : { fault: 'must be a positive whole number of bytes' }
}

/** A limit in bytes; null for 0, which is no limit. */
export function parseByteLimit(text: string): Parsed<number | null> {
  const count = decimal(text)
  return count === null
    ? { fault: 'must be a whole number of bytes, or 0 for no limit' }
    : { value: count === 0 ? null : count }
}

/** A limit on a count; null for 0, which is no limit. */
export function parseCountLimit(text: string): Parsed<number | null> {
  const count = decimal(text)
  return count === null
    ? { fault: 'must be a whole number, or 0 for no limit' }
    : { value: count === 0 ? null : count }
}

/** A number of bytes, or 0. */
export function parseReserve(text: string): Parsed<number> {
  const count = decimal(text)
  return count === null ? { fault: 'must be a whole number of bytes, or 0 for none' } : { value: count }
}

/** A number of requests per minute. */
export function parseRequestCount(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0
    ? { value: count }
    : { fault: 'must be a positive whole number of requests per minute' }
}

/** A redis:// or rediss:// URL. */
export function parseRedisUrl(text: string): Parsed<string> {
  const url = URL.parse(text)
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === '') {
    return {
      fault:
        'must be a redis:// or rediss:// URL; special characters in its password must be percent-encoded',
    }
  }
  if (percentDecoded(url.username) === null || percentDecoded(url.password) === null) {
    return { fault: 'has an invalid percent-encoding; encode % as %25' }
  }
  if (!/^(\/\d*)?$/.test(url.pathname) || /[?#]/.test(text)) {
    return { fault: 'must not have a path other than a database number, a query or a fragment' }
  }
  return { value: text }
}

/** Returns a parser of an enum. */
export function oneOf<const T extends string>(choices: readonly T[]): (text: string) => Parsed<T> {
  return (text) => {
    const choice = choices.find((candidate) => candidate === text)
    return choice === undefined ? { fault: `must be one of ${choices.join(', ')}` } : { value: choice }
  }
}

function decimal(text: string): number | null {
  const number = Number(text)
  return /^\d+$/.test(text) && Number.isSafeInteger(number) ? number : null
}
