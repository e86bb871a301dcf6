import { isIP } from 'node:net'
import { resolve } from 'node:path'

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
const registrations = ['open', 'closed'] as const

export type LogLevel = (typeof logLevels)[number]
export type Registration = (typeof registrations)[number]

/** Everything that the environment decides about a process. */
export interface Config {
  /** Host name or address to listen on. */
  readonly host: string
  /** TCP port to listen on; 0 lets the system choose. */
  readonly port: number
  /** postgres:// URL of the database server; null for the embedded database. Holds a password. */
  readonly databaseUrl: string | null
  /** Absolute path of the folder for everything that the service keeps on disk. */
  readonly dataDir: string
  /**
   * Secret that signs tokens, at least 32 bytes of UTF-8; null when one is to be made and kept in dataDir.
   */
  readonly jwtSecret: string | null
  readonly registration: Registration
  /** The service's own address without a trailing slash, path prefix included; null when unset. */
  readonly publicUrl: string | null
  /** Addresses and CIDR ranges of the proxies whose X-Forwarded-* headers count. */
  readonly trustProxy: readonly string[]
  readonly logLevel: LogLevel
  /** Size of the largest attachment, in bytes. */
  readonly attachmentMaxBytes: number
}

/** Thrown for an environment with bad values; its message has a line for each of them and shows no secret. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

type Parsed<T> = { readonly value: T } | { readonly fault: string }

interface Variable<T> {
  readonly fallback: T
  readonly parse: (text: string) => Parsed<T>
  readonly example: string
}

type Variables = { readonly [Key in keyof Config]: Variable<Config[Key]> & { readonly name: string } }

const variables: Variables = {
  host: { name: 'HOST', fallback: 'localhost', parse: parseHost, example: '0.0.0.0' },
  port: { name: 'PORT', fallback: 3000, parse: parsePort, example: '3000' },
  databaseUrl: {
    name: 'DATABASE_URL',
    fallback: null,
    parse: parseDatabaseUrl,
    example: 'postgres://user:password@localhost:5432/taskwright',
  },
  dataDir: { name: 'DATA_DIR', fallback: resolve('data'), parse: parsePath, example: './data' },
  jwtSecret: {
    name: 'JWT_SECRET',
    fallback: null,
    parse: parseSecret,
    example: 'the output of `openssl rand -base64 48`',
  },
  registration: { name: 'REGISTRATION', fallback: 'open', parse: oneOf(registrations), example: 'closed' },
  publicUrl: {
    name: 'PUBLIC_URL',
    fallback: null,
    parse: parsePublicUrl,
    example: 'https://tasks.example.com/api',
  },
  trustProxy: {
    name: 'TRUST_PROXY',
    fallback: [],
    parse: parseProxies,
    example: '127.0.0.1,10.0.0.0/8',
  },
  logLevel: { name: 'LOG_LEVEL', fallback: 'info', parse: oneOf(logLevels), example: 'info' },
  attachmentMaxBytes: {
    name: 'ATTACHMENT_MAX_BYTES',
    fallback: 50 * 1024 * 1024,
    parse: parseByteCount,
    example: '52428800',
  },
}

/**
 * Reads the configuration. An empty variable counts as unset.
 * Throws ConfigError, which names every bad variable, what is wrong with it and an example of a good value.
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const faults: string[] = []
  const read = <Key extends keyof Config>(key: Key): Config[Key] => {
    const { name, fallback, parse, example } = variables[key]
    const text = env[name]
    const parsed = text ? parse(text) : { value: fallback }
    if ('value' in parsed) return parsed.value
    faults.push(`${name} ${parsed.fault} (example: ${example})`)
    return fallback
  }
  const config: Config = {
    host: read('host'),
    port: read('port'),
    databaseUrl: read('databaseUrl'),
    dataDir: read('dataDir'),
    jwtSecret: read('jwtSecret'),
    registration: read('registration'),
    publicUrl: read('publicUrl'),
    trustProxy: read('trustProxy'),
    logLevel: read('logLevel'),
    attachmentMaxBytes: read('attachmentMaxBytes'),
  }
  if (faults.length > 0) throw new ConfigError(`Bad configuration:\n${faults.join('\n')}`)
  return config
}

function parseHost(text: string): Parsed<string> {
  const good = isIP(text) > 0 || /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(text)
  return good ? { value: text } : { fault: 'must be a host name or an IP address, without a port' }
}

function parsePort(text: string): Parsed<number> {
  const port = decimal(text)
  return port !== null && port <= 65535
    ? { value: port }
    : { fault: 'must be a whole number from 0 to 65535' }
}

function parseDatabaseUrl(text: string): Parsed<string> {
  if (!/^postgres(ql)?:\/\//.test(text)) return { fault: 'must begin with postgres:// or postgresql://' }
  if (!URL.canParse(firstHostOnly(text))) {
    return { fault: 'is not a URL; special characters in its password must be percent-encoded' }
  }
  return { value: text }
}

// The driver accepts host1:port1,host2:port2, which URL does not.
function firstHostOnly(text: string): string {
  return text.replace(/(:\/\/(?:[^/?]*@)?[^,/?]*),[^/?]*/, '$1')
}

function parsePath(text: string): Parsed<string> {
  return text.includes('\0') ? { fault: 'must be a path' } : { value: resolve(text) }
}

function parseSecret(text: string): Parsed<string> {
  const bytes = Buffer.byteLength(text)
  return bytes >= 32 ? { value: text } : { fault: `must be at least 32 bytes long, and has ${bytes}` }
}

function parsePublicUrl(text: string): Parsed<string> {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return { fault: 'must be an http:// or https:// URL' }
  if (url.username || url.password) return { fault: 'must not hold a user name or password' }
  if (/[?#]/.test(text)) return { fault: 'must not have a query or a fragment' }
  return { value: url.href.replace(/\/+$/, '') }
}

function parseProxies(text: string): Parsed<readonly string[]> {
  const entries = text.split(',').map((entry) => entry.trim())
  const bad = entries.find((entry) => !isAddressOrRange(entry))
  if (bad === undefined) return { value: entries }
  return { fault: `must be a comma-separated list of IP addresses or CIDR ranges, and '${bad}' is neither` }
}

// A range of length 0 would trust every client's word about its own address.
function isAddressOrRange(entry: string): boolean {
  const [address = '', length, ...rest] = entry.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  if (length === undefined) return true
  const bits = decimal(length)
  return bits !== null && bits >= 1 && bits <= (version === 4 ? 32 : 128)
}

function parseByteCount(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0
    ? { value: count }
    : { fault: 'must be a positive whole number of bytes' }
}

function oneOf<const T extends string>(choices: readonly T[]): (text: string) => Parsed<T> {
  return (text) => {
    const choice = choices.find((candidate) => candidate === text)
    return choice === undefined ? { fault: `must be one of ${choices.join(', ')}` } : { value: choice }
  }
}

function decimal(text: string): number | null {
  const number = Number(text)
  return /^\d+$/.test(text) && Number.isSafeInteger(number) ? number : null
}
