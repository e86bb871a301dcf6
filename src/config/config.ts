import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import {
  isLoopback,
  oneOf,
  parseByteCount,
  parseByteLimit,
  parseCountLimit,
  parseDatabaseUrl,
  parseDayCount,
  parseEndpoint,
  parseHost,
  parseMailAddress,
  parseMetricsToken,
  parseOrigins,
  parsePath,
  parsePort,
  parseProxies,
  parsePublicUrl,
  parseRedisUrl,
  parseRequestCount,
  parseReserve,
  parseSecrets,
  parseShutdownSeconds,
  parseSmtpUrl,
  parseStorageUrl,
  parseWorkers,
  type MailAddress,
  type Parsed,
  type S3Location,
  type SmtpServer,
} from './values.ts'

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
const registrations = ['open', 'closed'] as const
const switches = ['on', 'off'] as const
const logFormats = ['json', 'pretty'] as const

export type LogLevel = (typeof logLevels)[number]
export type Registration = (typeof registrations)[number]
export type LogFormat = (typeof logFormats)[number]
export type Switch = (typeof switches)[number]

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
  /** How the process reports its start, stop and failures: see `readLogFormat`. Requests are always logged as JSON. */
  readonly logFormat: LogFormat | null
  /** Size of the largest attachment, in bytes. */
  readonly attachmentMaxBytes: number
  /** What the files that one user attached may take together, in bytes; null for any number. */
  readonly attachmentQuotaBytes: number | null
  /** How many tasks one user may own, those in the trash included; null for any number. */
  readonly taskQuota: number | null
  /** Bytes of the disk in DATA_DIR that files leave free. */
  readonly diskReserveBytes: number
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
  logFormat: { name: 'LOG_FORMAT', fallback: null, parse: oneOf(logFormats), example: 'json' },
  attachmentMaxBytes: {
    name: 'ATTACHMENT_MAX_BYTES',
    fallback: 50 * 1024 * 1024,
    parse: parseByteCount,
    example: '52428800',
  },
  attachmentQuotaBytes: {
    name: 'ATTACHMENT_QUOTA_BYTES',
    fallback: 10 * 1024 ** 3,
    parse: parseByteLimit,
    example: '10737418240',
  },
  taskQuota: { name: 'TASK_QUOTA', fallback: 200_000, parse: parseCountLimit, example: '200000' },
  diskReserveBytes: {
    name: 'DISK_RESERVE_BYTES',
    fallback: 512 * 1024 ** 2,
    parse: parseReserve,
    example: '536870912',
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
    logFormat: read('logFormat'),
    attachmentMaxBytes: read('attachmentMaxBytes'),
    attachmentQuotaBytes: read('attachmentQuotaBytes'),
    taskQuota: read('taskQuota'),
    diskReserveBytes: read('diskReserveBytes'),
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
    faults.push(
      `${variables.smtpUrl.name} requires ${name}, the base URL of the links in mails (example: ${example})`,
    )
  }
  if (wantedWorkers !== 'auto' && wantedWorkers > 1 && !env[variables.databaseUrl.name]) {
    const { name, example } = variables.databaseUrl
    faults.push(
      `${variables.wantedWorkers.name} above 1 requires ${name}: the embedded database supports only one process (example: ${example})`,
    )
  }
  if (faults.length > 0) throw new ConfigError(`Invalid configuration:\n${faults.join('\n')}`)
  return {
    ...config,
    mail: mailConfig(config, { smtpUrl, mailFrom, isProduction }),
    traces: wantsTraces({ tracesExporter, otlpEndpoint, otlpTracesEndpoint, isOtelDisabled }),
    workers: wantedWorkers === 'auto' ? mostWorkers(config) : wantedWorkers,
  }
}

/**
 * LOG_FORMAT alone, which is needed to report that other variables are bad. Unset or bad, it is text on a terminal outside
 * of production, and JSON everywhere else.
 */
export function readLogFormat(
  env: NodeJS.ProcessEnv = process.env,
  isTerminal: boolean = process.stdout.isTTY,
): LogFormat {
  const { logFormat, isProduction } = variables
  const chosen = logFormat.parse(env[logFormat.name] ?? '')
  if ('value' in chosen && chosen.value !== null) return chosen.value
  return isTerminal && env[isProduction.name] !== 'production' ? 'pretty' : 'json'
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
