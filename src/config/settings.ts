import { resolve } from 'node:path'
import {
  oneOf,
  parseByteCount,
  parseByteLimit,
  parseCountLimit,
  parseDatabaseUrl,
  parseDayCount,
  parseEndpoint,
  parseHost,
  parseHosts,
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
  type Parsed,
} from './values.ts'

/** An environment variable that configures the service. */
export interface Setting<T> {
  readonly name: string
  readonly parse: (text: string) => Parsed<T>
  readonly default: T
  /** How the documentation shows the default, in Markdown, where the value does not tell. */
  readonly shownDefault?: string
  /** A good value, for messages about bad ones. */
  readonly example: string
  /** Whether `<name>_FILE` can name a file with the value instead. */
  readonly isSecret?: boolean
  /** The row of the documentation, in Markdown; links are relative to docs/operations/. */
  readonly doc: string
}

interface Declaration<T, Default> extends Omit<Setting<T>, 'default'> {
  readonly default: Default
}

const setting = <T, const Default>(declaration: Declaration<T, Default>): Setting<T | Default> => declaration

/** All settings, in the order of the documentation, which `npm run generate` writes from this table. */
export const settings = {
  host: setting({
    name: 'HOST',
    parse: parseHost,
    default: 'localhost',
    example: '0.0.0.0',
    doc: 'Host name or address to listen on. `localhost` is 127.0.0.1. `0.0.0.0` listens on every IPv4 address of the machine.',
  }),
  port: setting({
    name: 'PORT',
    parse: parsePort,
    default: 3000,
    example: '3000',
    doc: 'Port to listen on. `0` chooses a free port, which the last line of the start names.',
  }),
  publicUrl: setting({
    name: 'PUBLIC_URL',
    parse: parsePublicUrl,
    default: null,
    shownDefault: 'unset',
    example: 'https://tasks.example.com/api',
    doc: 'The address that clients use, path prefix included. `Location`, `Link` and problem types begin with it.',
  }),
  trustProxy: setting({
    name: 'TRUST_PROXY',
    parse: parseProxies,
    default: [],
    shownDefault: 'unset: none',
    example: '127.0.0.1,10.0.0.0/8',
    doc: 'Addresses and CIDR ranges, separated by commas, of the proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted. Rate limits, sessions and audit events identify clients by the resulting address.',
  }),
  corsOrigins: setting({
    name: 'CORS_ORIGINS',
    parse: parseOrigins,
    default: [],
    shownDefault: 'unset: none',
    example: 'https://app.example.com,http://localhost:5173',
    doc: 'Origins whose pages may use the API from a browser, separated by commas, or `*`.',
  }),
  registration: setting({
    name: 'REGISTRATION',
    parse: oneOf(['open', 'closed']),
    default: 'open',
    example: 'closed',
    doc: '`closed`: only administrators create accounts. The very first account can still register.',
  }),
  invitations: setting({
    name: 'INVITATIONS',
    parse: oneOf(['open', 'registered', 'off']),
    default: 'registered',
    example: 'open',
    doc: 'Who may accept an invitation to a project. `registered`: whoever has an account, or may register one. `open`: an invitation also allows registering an account when `REGISTRATION` is `closed`. `off`: nobody; invitations can be neither sent nor accepted. Sending needs mail (`SMTP_URL`).',
  }),
  invitationsPerDay: setting({
    name: 'INVITATIONS_PER_DAY',
    parse: parseRequestCount,
    default: 50,
    example: '50',
    doc: 'Invitations that one user may send in 24 hours. One address is sent at most 5 in 24 hours, whoever invites it.',
  }),
  mcp: setting({
    name: 'MCP',
    parse: oneOf(['on', 'off']),
    default: 'on',
    example: 'off',
    doc: '`off`: assistants cannot connect with the Model Context Protocol; `POST /mcp` is answered 404. See [Assistants](../guides/assistants.md).',
  }),
  dataDir: setting({
    name: 'DATA_DIR',
    parse: parsePath,
    default: resolve('data'),
    shownDefault: '`./data`',
    example: './data',
    doc: 'Folder for attachments (unless `STORAGE_URL` is set), the generated secret, the embedded database and the cache of compiled modules.',
  }),
  databaseUrl: setting({
    name: 'DATABASE_URL',
    isSecret: true,
    parse: parseDatabaseUrl,
    default: null,
    shownDefault: 'the embedded database',
    example: 'postgres://user:password@localhost:5432/taskwright',
    doc: '`postgres://` or `postgresql://` URL of a database. Percent-encode special characters in its password.',
  }),
  storageUrl: setting({
    name: 'STORAGE_URL',
    parse: parseStorageUrl,
    default: null,
    shownDefault: 'unset: a folder in `DATA_DIR`',
    example: 's3://bucket/taskwright?endpoint=https://s3.example.com&region=eu-central-1',
    doc: '`s3://` URL of a bucket for attachments. See [Attachments in S3](install.md#attachments-in-s3).',
  }),
  redisUrl: setting({
    name: 'REDIS_URL',
    isSecret: true,
    parse: parseRedisUrl,
    default: null,
    shownDefault: 'unset: each instance by itself',
    example: 'redis://:password@localhost:6379',
    doc: '`redis://` or `rediss://` URL of a Redis or Valkey in which instances count requests together. While it cannot be used, each instance counts by itself, and the log says so.',
  }),
  jwtSecrets: setting({
    name: 'JWT_SECRET',
    isSecret: true,
    parse: parseSecrets,
    default: null,
    shownDefault: 'generated, in `DATA_DIR`',
    example: 'the output of `openssl rand -base64 48`',
    doc: 'Secrets of at least 32 bytes, separated by commas: the first one signs, and all of them verify. See [Rotating the secret](#rotating-the-secret). The generated secret is in the file `jwt-secret`, readable by its owner only.',
  }),
  workers: setting({
    name: 'WORKERS',
    parse: parseWorkers,
    default: 1,
    example: 'auto',
    doc: 'Processes that answer requests: a number, or `auto` for one per processor. More than one needs `DATABASE_URL`. Each opens up to 11 connections to the database. They share rate limits; a revocation in one reaches the others within milliseconds, or after 5 seconds at the latest.',
  }),
  shutdownSeconds: setting({
    name: 'SHUTDOWN_SECONDS',
    parse: parseShutdownSeconds,
    default: 30,
    example: '30',
    doc: 'Seconds that a stop may take, 5 to 3600. Requests are cut off 4 seconds before that.',
  }),
  isProduction: setting({
    name: 'NODE_ENV',
    parse: (text) => ({ value: text === 'production' }),
    default: false,
    shownDefault: 'unset',
    example: 'production',
    doc: '`production`: the log is JSON even on a terminal, and links of mails are never logged.',
  }),
  logLevel: setting({
    name: 'LOG_LEVEL',
    parse: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
    default: 'info',
    example: 'info',
    doc: '`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`. Requests are logged at `info`.',
  }),
  logFormat: setting({
    name: 'LOG_FORMAT',
    parse: oneOf(['json', 'pretty']),
    default: null,
    shownDefault: 'unset: `pretty` on a terminal unless `NODE_ENV=production`, otherwise `json`',
    example: 'json',
    doc: 'Format of start, stop, warnings and failures: `json`, one object per line, or `pretty`, text for people. Requests are logged as JSON in both.',
  }),
  smtpUrl: setting({
    name: 'SMTP_URL',
    isSecret: true,
    parse: parseSmtpUrl,
    default: null,
    shownDefault: 'unset: no mail',
    example: 'smtp://user:password@mail.example.com:587',
    doc: '`smtp://` or `smtps://` URL of a mail server. Needs `PUBLIC_URL`, which the links in mails begin with.',
  }),
  mailFrom: setting({
    name: 'MAIL_FROM',
    parse: parseMailAddress,
    default: null,
    shownDefault: '`Taskwright <taskwright@…>` at the host of `PUBLIC_URL`',
    example: 'Taskwright <tasks@example.com>',
    doc: 'Sender of mails.',
  }),
  trashDays: setting({
    name: 'TRASH_DAYS',
    parse: parseDayCount,
    default: 30,
    example: '30',
    doc: 'Days for which a deleted task can be restored.',
  }),
  auditDays: setting({
    name: 'AUDIT_DAYS',
    parse: parseDayCount,
    default: 365,
    example: '365',
    doc: 'Days for which audit events are kept.',
  }),
  eventDays: setting({
    name: 'EVENT_DAYS',
    parse: parseDayCount,
    default: 90,
    example: '90',
    doc: 'Days for which events, the history of tasks and projects, and notifications are kept.',
  }),
  webhookAllow: setting({
    name: 'WEBHOOK_ALLOW',
    parse: parseHosts,
    default: [],
    shownDefault: 'unset: public addresses only',
    example: 'builds.internal,10.20.0.0/16',
    doc: 'Host names, addresses and CIDR ranges, separated by commas, that webhooks are sent to although their addresses are private. Every user who can create webhooks can then send requests there, and read the beginning of the responses. See [Webhooks](../guides/webhooks.md).',
  }),
  attachmentMaxBytes: setting({
    name: 'ATTACHMENT_MAX_BYTES',
    parse: parseByteCount,
    default: 50 * 1024 ** 2,
    shownDefault: '`52428800` (50 MiB)',
    example: '52428800',
    doc: 'Largest file that is accepted.',
  }),
  attachmentQuotaBytes: setting({
    name: 'ATTACHMENT_QUOTA_BYTES',
    parse: parseByteLimit,
    default: 10 * 1024 ** 3,
    shownDefault: '`10737418240` (10 GiB)',
    example: '10737418240',
    doc: 'Bytes that the files which one user has attached may take together. `0` is unlimited.',
  }),
  taskQuota: setting({
    name: 'TASK_QUOTA',
    parse: parseCountLimit,
    default: 200_000,
    example: '200000',
    doc: 'Tasks that one user may own, including those in the trash. `0` is unlimited. Others can give a user tasks up to half of it. Each process counts by itself, so several processes can exceed it slightly.',
  }),
  diskReserveBytes: setting({
    name: 'DISK_RESERVE_BYTES',
    parse: parseReserve,
    default: 512 * 1024 ** 2,
    shownDefault: '`536870912` (512 MiB)',
    example: '536870912',
    doc: 'Bytes of the disk of `DATA_DIR` that uploads leave free, such as for the embedded database. An upload that would take more is answered 507. `0` is no reserve. It does not apply to S3.',
  }),
  rateLimit: setting({
    name: 'RATE_LIMIT',
    parse: oneOf(['on', 'off']),
    default: 'on',
    example: 'off',
    doc: '`off`: requests are not limited. Failed sign-ins are delayed all the same.',
  }),
  rateLimitSignIn: setting({
    name: 'RATE_LIMIT_SIGN_IN',
    parse: parseRequestCount,
    default: 10,
    example: '10',
    doc: 'Per minute and network (an IPv4 address or an IPv6 /64): registrations, sign-ins and forgotten passwords.',
  }),
  rateLimitRefresh: setting({
    name: 'RATE_LIMIT_REFRESH',
    parse: parseRequestCount,
    default: 30,
    example: '30',
    doc: 'Per minute and network: refreshes of a session.',
  }),
  rateLimitApi: setting({
    name: 'RATE_LIMIT_API',
    parse: parseRequestCount,
    default: 600,
    example: '600',
    doc: 'Per minute and user: all requests. Questions for the offset of an upload, and downloads by link, are counted separately, up to the same number.',
  }),
  rateLimitUpload: setting({
    name: 'RATE_LIMIT_UPLOAD',
    parse: parseRequestCount,
    default: 60,
    example: '60',
    doc: 'Per minute and user: uploads, which count as requests as well.',
  }),
  rateLimitAnonymous: setting({
    name: 'RATE_LIMIT_ANONYMOUS',
    parse: parseRequestCount,
    default: 600,
    example: '600',
    doc: 'Per minute and network: requests without a valid token.',
  }),
  metricsPort: setting({
    name: 'METRICS_PORT',
    parse: parsePort,
    default: null,
    shownDefault: 'unset: no metrics',
    example: '9464',
    doc: 'Port for Prometheus, path `/metrics`. See [Monitoring](monitoring.md#metrics).',
  }),
  metricsHost: setting({
    name: 'METRICS_HOST',
    parse: parseHost,
    default: 'localhost',
    example: '0.0.0.0',
    doc: 'Host name or address for that port, as in `HOST`.',
  }),
  metricsToken: setting({
    name: 'METRICS_TOKEN',
    isSecret: true,
    parse: parseMetricsToken,
    default: null,
    shownDefault: 'unset: no token needed',
    example: 'the output of `openssl rand -hex 24`',
    doc: 'Bearer token for the metrics, at least 16 characters.',
  }),
  otlpEndpoint: setting({
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    parse: parseEndpoint,
    default: null,
    shownDefault: 'unset: no traces',
    example: 'http://localhost:4318',
    doc: 'Address of an OpenTelemetry collector, by OTLP over HTTP. `OTEL_SERVICE_NAME` is honoured as well.',
  }),
  otlpTracesEndpoint: setting({
    name: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    parse: parseEndpoint,
    default: null,
    shownDefault: 'unset',
    example: 'http://localhost:4318/v1/traces',
    doc: 'Address for traces only, path included.',
  }),
  tracesExporter: setting({
    name: 'OTEL_TRACES_EXPORTER',
    parse: oneOf(['otlp', 'none']),
    default: null,
    shownDefault: 'unset',
    example: 'otlp',
    doc: '`otlp` sends traces; `none` sends none.',
  }),
  isOtelDisabled: setting({
    name: 'OTEL_SDK_DISABLED',
    parse: (text) => ({ value: text.toLowerCase() === 'true' }),
    default: false,
    example: 'true',
    doc: '`true`: no traces.',
  }),
}

/** The values of all settings. */
export type Settings = {
  readonly [Key in keyof typeof settings]: (typeof settings)[Key] extends Setting<infer T> ? T : never
}
