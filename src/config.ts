import { isIP } from 'node:net'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
const registrations = ['open', 'closed'] as const
const switches = ['on', 'off'] as const

export type LogLevel = (typeof logLevels)[number]
export type Registration = (typeof registrations)[number]
export type Switch = (typeof switches)[number]

/** A server that takes mail. */
export interface SmtpServer {
  readonly host: string
  readonly port: number
  /**
   * How the connection is encrypted. A password goes to another machine by TLS only; on this one a mail server mostly
   * has no certificate that could be verified, and there is nobody to hide anything from.
   */
  readonly tls: 'implicit' | 'starttls' | 'starttls_if_offered' | 'none'
  /** Holds a password. */
  readonly auth: { readonly user: string; readonly pass: string } | null
}

export interface MailAddress {
  /** What people see beside the address; may be empty. */
  readonly name: string
  readonly address: string
}

/** A bucket of an S3 server, and how it is reached. */
export interface S3Location {
  readonly bucket: string
  /** What the names of all objects begin with: empty, or ends in a slash. */
  readonly prefix: string
  /** http:// or https:// URL of the server; null for that of AWS. */
  readonly endpoint: string | null
  readonly region: string
  /** Whether the bucket is named in the path of a request, and not in the name of the host. */
  readonly pathStyle: boolean
}

/** What becomes of a mail: it is sent, its link is logged for a developer, or there is none. */
export type MailConfig =
  | {
      readonly kind: 'smtp'
      readonly server: SmtpServer
      readonly from: MailAddress
      /** Never taken from a request, whose Host header is whatever its sender wrote. */
      readonly publicUrl: string
    }
  | { readonly kind: 'log' }
  | { readonly kind: 'none' }

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
   * Secrets of at least 32 bytes of UTF-8 each: the first one signs tokens, and all of them verify. Null when one is to
   * be made and kept in dataDir.
   */
  readonly jwtSecrets: readonly [string, ...string[]] | null
  readonly registration: Registration
  /** Where the files of attachments are kept; null for a folder in dataDir. */
  readonly storageUrl: S3Location | null
  /** The service's own address without a trailing slash, path prefix included; null when unset. */
  readonly publicUrl: string | null
  /** Addresses and CIDR ranges of the proxies whose X-Forwarded-* headers count. */
  readonly trustProxy: readonly string[]
  /** Origins whose pages may read what the service answers; `*` is all of them. */
  readonly corsOrigins: '*' | readonly string[]
  readonly logLevel: LogLevel
  /** Size of the largest attachment, in bytes. */
  readonly attachmentMaxBytes: number
  /** What the files that one user attached may take together, in bytes; null for any number. */
  readonly attachmentQuotaBytes: number | null
  /** Days for which the audit trail is kept. */
  readonly auditDays: number
  /** Days for which a deleted task stays in the trash. */
  readonly trashDays: number
  /** Whether requests are limited; the numbers below are requests per minute. */
  readonly rateLimit: Switch
  /** Of one network: attempts to sign in. */
  readonly rateLimitSignIn: number
  /** Of one network: refreshes. */
  readonly rateLimitRefresh: number
  /** Of one user. */
  readonly rateLimitApi: number
  /** Of one user: uploads, which count as requests too. */
  readonly rateLimitUpload: number
  /** Of one network: everything else that nobody is signed in for. */
  readonly rateLimitAnonymous: number
  /** redis:// or rediss:// URL of the server that instances count requests in; null when each counts its own. Holds a password. */
  readonly redisUrl: string | null
  readonly mail: MailConfig
  /** TCP port for Prometheus, 0 for one that the system chooses; null for no metrics. */
  readonly metricsPort: number | null
  readonly metricsHost: string
  /** Needed to read the metrics; null when whoever reaches their port may. */
  readonly metricsToken: string | null
  /** Whether traces are sent; where to and how is read by OpenTelemetry itself. */
  readonly traces: boolean
  /** Seconds that a stop may take; requests that have begun get all of it but the last few. */
  readonly shutdownSeconds: number
  /** How many processes answer requests; 1 is the process itself. */
  readonly workers: number
}

/** What one variable alone decides. */
type Settings = Omit<Config, 'mail' | 'traces' | 'workers'> & MailSettings & TraceSettings & WorkerSettings

/** What `mail` is made of, besides others. */
interface MailSettings {
  readonly smtpUrl: SmtpServer | null
  readonly mailFrom: MailAddress | null
  readonly isProduction: boolean
}

/** What `workers` is made of, besides others. */
interface WorkerSettings {
  readonly wantedWorkers: number | 'auto'
}

/** What `traces` is made of. */
interface TraceSettings {
  readonly tracesExporter: 'otlp' | 'none' | null
  readonly otlpEndpoint: string | null
  readonly otlpTracesEndpoint: string | null
  readonly isOtelDisabled: boolean
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

type Variables = { readonly [Key in keyof Settings]: Variable<Settings[Key]> & { readonly name: string } }

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
  jwtSecrets: {
    name: 'JWT_SECRET',
    fallback: null,
    parse: parseSecrets,
    example: 'the output of `openssl rand -base64 48`',
  },
  registration: { name: 'REGISTRATION', fallback: 'open', parse: oneOf(registrations), example: 'closed' },
  storageUrl: {
    name: 'STORAGE_URL',
    fallback: null,
    parse: parseStorageUrl,
    example: 's3://bucket/taskwright?endpoint=https://s3.example.com&region=eu-central-1',
  },
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
  corsOrigins: {
    name: 'CORS_ORIGINS',
    fallback: [],
    parse: parseOrigins,
    example: 'https://app.example.com,http://localhost:5173',
  },
  logLevel: { name: 'LOG_LEVEL', fallback: 'info', parse: oneOf(logLevels), example: 'info' },
  attachmentMaxBytes: {
    name: 'ATTACHMENT_MAX_BYTES',
    fallback: 50 * 1024 * 1024,
    parse: parseByteCount,
    example: '52428800',
  },
  attachmentQuotaBytes: {
    name: 'ATTACHMENT_QUOTA_BYTES',
    fallback: null,
    parse: parseByteCount,
    example: '10737418240',
  },
  auditDays: { name: 'AUDIT_DAYS', fallback: 365, parse: parseDayCount, example: '365' },
  trashDays: { name: 'TRASH_DAYS', fallback: 30, parse: parseDayCount, example: '30' },
  rateLimit: { name: 'RATE_LIMIT', fallback: 'on', parse: oneOf(switches), example: 'off' },
  rateLimitSignIn: { name: 'RATE_LIMIT_SIGN_IN', fallback: 10, parse: parseRequestCount, example: '10' },
  rateLimitRefresh: { name: 'RATE_LIMIT_REFRESH', fallback: 30, parse: parseRequestCount, example: '30' },
  rateLimitApi: { name: 'RATE_LIMIT_API', fallback: 600, parse: parseRequestCount, example: '600' },
  rateLimitUpload: { name: 'RATE_LIMIT_UPLOAD', fallback: 60, parse: parseRequestCount, example: '60' },
  rateLimitAnonymous: {
    name: 'RATE_LIMIT_ANONYMOUS',
    fallback: 600,
    parse: parseRequestCount,
    example: '600',
  },
  redisUrl: {
    name: 'REDIS_URL',
    fallback: null,
    parse: parseRedisUrl,
    example: 'redis://:password@localhost:6379',
  },
  smtpUrl: {
    name: 'SMTP_URL',
    fallback: null,
    parse: parseSmtpUrl,
    example: 'smtp://user:password@mail.example.com:587',
  },
  mailFrom: {
    name: 'MAIL_FROM',
    fallback: null,
    parse: parseMailAddress,
    example: 'Taskwright <tasks@example.com>',
  },
  metricsPort: { name: 'METRICS_PORT', fallback: null, parse: parsePort, example: '9464' },
  metricsHost: { name: 'METRICS_HOST', fallback: 'localhost', parse: parseHost, example: '0.0.0.0' },
  metricsToken: {
    name: 'METRICS_TOKEN',
    fallback: null,
    parse: parseMetricsToken,
    example: 'the output of `openssl rand -hex 24`',
  },
  tracesExporter: {
    name: 'OTEL_TRACES_EXPORTER',
    fallback: null,
    parse: oneOf(['otlp', 'none']),
    example: 'otlp',
  },
  otlpEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    fallback: null,
    parse: parseEndpoint,
    example: 'http://localhost:4318',
  },
  otlpTracesEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    fallback: null,
    parse: parseEndpoint,
    example: 'http://localhost:4318/v1/traces',
  },
  isOtelDisabled: {
    name: 'OTEL_SDK_DISABLED',
    fallback: false,
    parse: (text) => ({ value: text.toLowerCase() === 'true' }),
    example: 'true',
  },
  shutdownSeconds: {
    name: 'SHUTDOWN_SECONDS',
    fallback: 30,
    parse: parseShutdownSeconds,
    example: '30',
  },
  wantedWorkers: { name: 'WORKERS', fallback: 1, parse: parseWorkers, example: 'auto' },
  isProduction: {
    name: 'NODE_ENV',
    fallback: false,
    parse: (text) => ({ value: text === 'production' }),
    example: 'production',
  },
}

/**
 * Reads the configuration. An empty variable counts as unset.
 * Throws ConfigError, which names every bad variable, what is wrong with it and an example of a good value.
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const faults: string[] = []
  const read = <Key extends keyof Settings>(key: Key): Settings[Key] => {
    const { name, fallback, parse, example } = variables[key]
    const text = env[name]
    const parsed = text ? parse(text) : { value: fallback }
    if ('value' in parsed) return parsed.value
    faults.push(`${name} ${parsed.fault} (example: ${example})`)
    return fallback
  }
  const settings: Settings = {
    host: read('host'),
    port: read('port'),
    databaseUrl: read('databaseUrl'),
    dataDir: read('dataDir'),
    jwtSecrets: read('jwtSecrets'),
    registration: read('registration'),
    storageUrl: read('storageUrl'),
    publicUrl: read('publicUrl'),
    trustProxy: read('trustProxy'),
    corsOrigins: read('corsOrigins'),
    logLevel: read('logLevel'),
    attachmentMaxBytes: read('attachmentMaxBytes'),
    attachmentQuotaBytes: read('attachmentQuotaBytes'),
    auditDays: read('auditDays'),
    trashDays: read('trashDays'),
    rateLimit: read('rateLimit'),
    rateLimitSignIn: read('rateLimitSignIn'),
    rateLimitRefresh: read('rateLimitRefresh'),
    rateLimitApi: read('rateLimitApi'),
    rateLimitUpload: read('rateLimitUpload'),
    rateLimitAnonymous: read('rateLimitAnonymous'),
    redisUrl: read('redisUrl'),
    smtpUrl: read('smtpUrl'),
    mailFrom: read('mailFrom'),
    metricsPort: read('metricsPort'),
    metricsHost: read('metricsHost'),
    metricsToken: read('metricsToken'),
    tracesExporter: read('tracesExporter'),
    otlpEndpoint: read('otlpEndpoint'),
    otlpTracesEndpoint: read('otlpTracesEndpoint'),
    isOtelDisabled: read('isOtelDisabled'),
    shutdownSeconds: read('shutdownSeconds'),
    wantedWorkers: read('wantedWorkers'),
    isProduction: read('isProduction'),
  }
  const {
    smtpUrl,
    mailFrom,
    isProduction,
    tracesExporter,
    otlpEndpoint,
    otlpTracesEndpoint,
    isOtelDisabled,
    wantedWorkers,
    ...config
  } = settings
  if (smtpUrl !== null && !env[variables.publicUrl.name]) {
    const { name, example } = variables.publicUrl
    faults.push(`${variables.smtpUrl.name} needs ${name}, where links in mails lead (example: ${example})`)
  }
  if (wantedWorkers !== 'auto' && wantedWorkers > 1 && !env[variables.databaseUrl.name]) {
    const { name, example } = variables.databaseUrl
    faults.push(
      `${variables.wantedWorkers.name} above 1 needs ${name}: the embedded database serves one process (example: ${example})`,
    )
  }
  if (faults.length > 0) throw new ConfigError(`Bad configuration:\n${faults.join('\n')}`)
  return {
    ...config,
    mail: mailConfig(config, { smtpUrl, mailFrom, isProduction }),
    traces: wantsTraces({ tracesExporter, otlpEndpoint, otlpTracesEndpoint, isOtelDisabled }),
    workers: wantedWorkers === 'auto' ? mostWorkers(config) : wantedWorkers,
  }
}

/** One for each processor, if the database lets them. */
function mostWorkers({ databaseUrl }: Pick<Config, 'databaseUrl'>): number {
  return databaseUrl === null ? 1 : availableParallelism()
}

function mailConfig(
  { host, publicUrl, trustProxy }: Pick<Config, 'host' | 'publicUrl' | 'trustProxy'>,
  { smtpUrl, mailFrom, isProduction }: MailSettings,
): MailConfig {
  if (smtpUrl !== null && publicUrl !== null) {
    const ownName = { name: 'Taskwright', address: `taskwright@${new URL(publicUrl).hostname}` }
    return { kind: 'smtp', server: smtpUrl, from: mailFrom ?? ownName, publicUrl }
  }
  // Whoever reaches such a service is at this machine, and may read its log.
  const isDevelopment = !isProduction && publicUrl === null && trustProxy.length === 0 && isLoopback(host)
  return { kind: isDevelopment ? 'log' : 'none' }
}

function wantsTraces({
  tracesExporter,
  otlpEndpoint,
  otlpTracesEndpoint,
  isOtelDisabled,
}: TraceSettings): boolean {
  if (isOtelDisabled || tracesExporter === 'none') return false
  return tracesExporter === 'otlp' || otlpEndpoint !== null || otlpTracesEndpoint !== null
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
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

// Spaces count, but for those beside a comma.
function parseSecrets(text: string): Parsed<readonly [string, ...string[]]> {
  const [newest = '', ...earlier] = text.split(/\s*,\s*/)
  const lengths = [newest, ...earlier].map((secret) => Buffer.byteLength(secret))
  const short = lengths.findIndex((bytes) => bytes < 32)
  if (short === -1) return { value: [newest, ...earlier] }
  return {
    fault: `must be one or more comma-separated secrets of at least 32 bytes each, and number ${short + 1} has ${lengths[short]}`,
  }
}

// Whoever needs no endpoint asks AWS, where a bucket is in one region; other servers mostly have but one.
function parseStorageUrl(text: string): Parsed<S3Location> {
  const url = URL.parse(text)
  if (url?.protocol !== 's3:' || url.hostname === '') return { fault: 'must be an s3:// URL' }
  if (url.username || url.password) {
    return {
      fault: 'must not hold credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile',
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
    return { fault: 'may have endpoint, region and path_style behind the ?, each once, and nothing else' }
  }
  const endpoint = url.searchParams.get('endpoint')
  if (endpoint !== null && !isPlainOrigin(endpoint)) {
    return {
      fault: 'must have an http:// or https:// URL for its endpoint, without credentials, query or fragment',
    }
  }
  const region = url.searchParams.get('region') ?? (endpoint === null ? '' : 'us-east-1')
  if (!/^[\w-]+$/.test(region)) return { fault: 'must name the region of the bucket, or an endpoint' }
  const pathStyle = url.searchParams.get('path_style') ?? 'false'
  if (!/^(true|false)$/.test(pathStyle)) return { fault: 'must have true or false for its path_style' }
  const prefix = url.pathname.replace(/^\//, '').replace(/[^/]$/, '$&/')
  return { value: { bucket: url.host, prefix, endpoint, region, pathStyle: pathStyle === 'true' } }
}

function isPlainOrigin(text: string): boolean {
  const url = URL.parse(text)
  return (
    url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(text)
  )
}

function parsePublicUrl(text: string): Parsed<string> {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return { fault: 'must be an http:// or https:// URL' }
  if (url.username || url.password) return { fault: 'must not hold a user name or password' }
  if (/[?#]/.test(text)) return { fault: 'must not have a query or a fragment' }
  return { value: url.href.replace(/\/+$/, '') }
}

function parseEndpoint(text: string): Parsed<string> {
  return /^https?:\/\//.test(text) && URL.canParse(text)
    ? { value: text }
    : { fault: 'must be an http:// or https:// URL' }
}

function parseMetricsToken(text: string): Parsed<string> {
  return /^[\w.~+/=-]{16,}$/.test(text)
    ? { value: text }
    : { fault: 'must be at least 16 characters that a Bearer token may have' }
}

function parseSmtpUrl(text: string): Parsed<SmtpServer> {
  const url = URL.parse(text)
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '') {
    return {
      fault: 'must be an smtp:// or smtps:// URL, in whose password special characters are percent-encoded',
    }
  }
  if (!/^\/?$/.test(url.pathname) || /[?#]/.test(text))
    return { fault: 'must not have a path, a query or a fragment' }
  const user = percentDecoded(url.username)
  const pass = percentDecoded(url.password)
  if (user === null || pass === null) return { fault: 'has a % that encodes nothing; a % itself is %25' }
  if ((user === '') !== (pass === '')) return { fault: 'must have a user name and a password, or neither' }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const auth = user === '' ? null : { user, pass }
  const port = url.port === '' ? null : Number(url.port)
  if (url.protocol === 'smtps:') return { value: { host, port: port ?? 465, tls: 'implicit', auth } }
  const tls = isLoopback(host) ? 'none' : auth === null ? 'starttls_if_offered' : 'starttls'
  return { value: { host, port: port ?? 587, tls, auth } }
}

function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

function parseMailAddress(text: string): Parsed<MailAddress> {
  const plain = String.raw`[^\s\p{Cc}<>()[\]\\,;:"@]+@[^\s\p{Cc}<>()[\]\\,;:"@]+`
  const [, name = '', inside, alone] =
    new RegExp(String.raw`^(?:([^\p{Cc}<>"]*?) *<(${plain})>|(${plain}))$`, 'u').exec(text) ?? []
  const address = inside ?? alone
  return address === undefined
    ? { fault: 'must be a mail address, with a name before it or without, and no quotes' }
    : { value: { name, address } }
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

// A hundred years, which any date arithmetic can do.
function parseDayCount(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0 && count <= 36_500
    ? { value: count }
    : { fault: 'must be a whole number of days from 1 to 36500' }
}

// An hour is longer than anything that could be waited for.
function parseShutdownSeconds(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count >= 5 && count <= 3_600
    ? { value: count }
    : { fault: 'must be a whole number of seconds from 5 to 3600' }
}

// Each has connections of its own to the database, whose servers mostly take a hundred.
function parseWorkers(text: string): Parsed<number | 'auto'> {
  if (text === 'auto') return { value: text }
  const count = decimal(text)
  return count !== null && count >= 1 && count <= 128
    ? { value: count }
    : { fault: 'must be auto or a whole number from 1 to 128' }
}

function parseOrigins(text: string): Parsed<'*' | readonly string[]> {
  if (text === '*') return { value: '*' }
  const entries = text.split(',').map((entry) => entry.trim())
  const bad = entries.find((entry) => !isOrigin(entry))
  if (bad === undefined) return { value: entries.map((entry) => new URL(entry).origin) }
  return { fault: `must be * or a comma-separated list of origins, and '${bad}' is none` }
}

// Nothing may stand behind the port but a slash, and no star stands for names.
function isOrigin(entry: string): boolean {
  const url = URL.parse(entry)
  return (
    url !== null && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/` && !/[?#@*]/.test(entry)
  )
}

function parseByteCount(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0
    ? { value: count }
    : { fault: 'must be a positive whole number of bytes' }
}

function parseRequestCount(text: string): Parsed<number> {
  const count = decimal(text)
  return count !== null && count > 0
    ? { value: count }
    : { fault: 'must be a positive whole number of requests per minute' }
}

function parseRedisUrl(text: string): Parsed<string> {
  const url = URL.parse(text)
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === '') {
    return {
      fault: 'must be a redis:// or rediss:// URL, in whose password special characters are percent-encoded',
    }
  }
  if (percentDecoded(url.username) === null || percentDecoded(url.password) === null) {
    return { fault: 'has a % that encodes nothing; a % itself is %25' }
  }
  if (!/^(\/\d*)?$/.test(url.pathname) || /[?#]/.test(text)) {
    return { fault: 'must have no path but the number of a database, no query and no fragment' }
  }
  return { value: text }
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
