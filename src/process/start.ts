import type { FastifyInstance } from 'fastify'
import type { AddressInfo } from 'node:net'
import { buildApp } from '../app.ts'
import { hashQueueOfWorker, type PasswordHasher, passwordHasher } from '../auth/passwords.ts'
import { type Config, type MailConfig, readLogFormat } from '../config/config.ts'
import { makeDataDir } from './data-dir.ts'
import { createFirstAdmin } from './first-admin.ts'
import { type Database, openDatabase } from '../db/engine/client.ts'
import type { ServerConnection } from '../db/engine/connection.ts'
import { isMissing } from '../data-dir/folder.ts'
import { expectComplete } from '../data-dir/interrupted.ts'
import { refuseWritesBelow } from '../db/engine/disk-guard.ts'
import { lockFolder } from '../data-dir/lock.ts'
import { migrateWhenPossible, untilMigrated } from '../db/engine/when-migrated.ts'
import { version } from '../domain/shared/version.ts'
import { listenAddress } from '../http/listen.ts'
import { shareCountsWithWorkers } from '../http/request-counts.ts'
import { httpUrl } from '../http/url.ts'
import { createThumbnailer } from '../images/thumbnailer.ts'
import { openLog, withoutMessage } from '../observe/log.ts'
import { findBinaries } from '../postgres/binaries.ts'
import {
  connectionOf,
  hasDatabase,
  librariesFolder,
  postgresFolder,
  retiredFolder,
} from '../postgres/cluster.ts'
import { startPostgres } from '../postgres/own-postgres.ts'
import { minFreeBytes } from '../postgres/settings.ts'
import { loggingMailer, noMailer, type OpenMailer } from '../mail/mailer.ts'
import { instrumentDatabase, instrumentHasher, instrumentStorage } from '../observe/instrument.ts'
import type { MetricsSource } from '../observe/metrics-server.ts'
import { expectOwnAddress, listenError } from './own-host.ts'
import { loadSecrets } from './secrets.ts'
import { reportReady, startSupervisor } from './supervisor.ts'
import { filesFolder, openStorage } from '../storage/open.ts'
import type { Storage } from '../storage/storage.ts'
import { startWatchdog } from './watchdog.ts'

/** The process that the service runs in, as its parts see it. */
export interface ServiceProcess {
  /** Logs the progress of the start. */
  readonly info: (message: string) => void
  readonly warn: (message: string) => void
  /** Registers a shutdown hook. Hooks run in reverse order. */
  readonly onShutdown: (close: () => Promise<unknown>) => void
  /** Ends the process with a fatal error. */
  readonly fail: (error: unknown) => void
  /** Aborted when shutdown begins. */
  readonly stopping: AbortSignal
  /** The number of this process among the workers of a supervisor; null when it has none. */
  readonly worker: number | null
}

/**
 * Starts the service and resolves when it is ready. It listens earlier: while the database is unavailable, or another process
 * migrates its schema, requests that need it get 503.
 */
export const start = (config: Config, process: ServiceProcess): Promise<void> =>
  config.workers > 1 && process.worker === null
    ? startWorkers(config, process)
    : startService(config, process)

/** Starts workers, which each run a service. This process answers no requests. */
const startWorkers = async (config: Config, process: ServiceProcess): Promise<void> => {
  const { info, warn, onShutdown } = process
  await prepare(config, process)
  const connection = await startDatabase(config, process)
  if (config.metricsPort !== null) {
    const { metricsOfWorkers } = await import('../observe/metrics.ts')
    const database = openDatabase(connection)
    onShutdown(() => database.close())
    await serveMetricsOf({ source: metricsOfWorkers(), database }, config, process)
  }
  info(`starting ${config.workers} workers`)
  shareCountsWithWorkers()
  const supervisor = startSupervisor(config.workers, { warn })
  onShutdown(() => supervisor.stop())
  logReady(config, process, await supervisor.ready)
}

const startService = async (config: Config, process: ServiceProcess): Promise<void> => {
  const { info, warn, stopping, worker } = process
  if (worker === null) await prepare(config, process)
  const connection = await (worker === null ? startDatabase(config, process) : connectionOfWorker(config))
  const { firstAdmin } = config
  const migrated = migrateWhenPossible(connection, {
    prepare: async () => {
      if (firstAdmin !== null) await createFirstAdmin(connection, firstAdmin, { info })
    },
    log: { info, warn },
    signal: stopping,
  })
  const served = await serve(config, process, { connection, migrated })
  if (served === null) return
  await migrated
  if (worker === null) logReady(config, process, served.url)
  else reportReady(served.url)
}

interface DatabaseStart {
  readonly connection: ServerConnection
  /** Resolves when the schema is up to date. */
  readonly migrated: Promise<void>
}

/** Maximum number of connections that wait to be accepted. The system may allow less. */
const listenBacklog = 4_096

/** Begins the line that Fastify logs for each address. */
const listening = 'Server listening'

/** Listens, and resolves to the URL, or to null if the process stops before. */
const serve = async (
  config: Config,
  process: ServiceProcess,
  { connection, migrated }: DatabaseStart,
): Promise<{ readonly database: Database; readonly url: string } | null> => {
  const { onShutdown, warn, stopping, worker } = process
  const format = readLogFormat()
  startWatchdog({
    format,
    worker,
    onError: ({ message }) =>
      warn(
        `The watchdog has failed, so this process is no longer killed when its event loop is blocked: ${message}`,
      ),
  })
  const logStream = openLog({ isShared: worker !== null })
  onShutdown(() => logStream.flush())
  // The callers await it; until then a rejection must not end the process.
  migrated.catch(() => undefined)
  const { database, storage, passwords, openMailer, observers } = await observe(config, process, {
    database: openServiceDatabase(config, connection),
    storage: await openStorage(config),
    passwords: passwordHasher(worker === null ? {} : { limiter: hashQueueOfWorker(config.workers) }),
    openMailer: await createMailer(config.mail, () => listeningUrl(config, app.server.address())),
  })
  onShutdown(() => database.close())
  const { refusing, waiting } = untilMigrated(database, migrated, stopping)

  const app = await buildApp({
    config,
    db: refusing,
    backgroundDb: waiting,
    ownDatabase:
      config.databaseUrl === null ? { folder: postgresFolder(config.dataDir), minFreeBytes } : null,
    secrets: await loadSecrets(config),
    storage,
    passwords,
    thumbnailer: createThumbnailer(),
    // `logReady` says it as text.
    logStream: format === 'pretty' ? withoutMessage(logStream, listening) : logStream,
    openMailer,
    observers,
    worker,
  })
  onShutdown(() => app.close())
  // Creating the tables of a new database takes a moment: waiting for it avoids refusing requests.
  if (config.databaseUrl === null) await migrated
  if (stopping.aborted) return null
  const { host, port } = config
  const listenTextResolver = (address: string) => `${listening} at ${address}`
  await app
    .listen({ host: listenAddress(host), port, backlog: listenBacklog, listenTextResolver })
    .catch((error: unknown) => {
      throw listenError({ prefix: '', host, port }, error)
    })
  // The log line with the address must precede the one that reports readiness.
  await logStream.flush()
  return { database, url: listeningUrl(config, app.server.address()) }
}

const prepare = async (
  { host, metricsHost, metricsPort, dataDir, storageUrl }: Config,
  { info }: ServiceProcess,
): Promise<void> => {
  // Not the ports: the process that this one replaces may still be stopping.
  await expectOwnAddress({ prefix: '', host, port: 0 })
  if (metricsPort !== null) await expectOwnAddress({ prefix: 'METRICS_', host: metricsHost, port: 0 })
  info(`version ${version} on Node.js ${process.versions.node}`)
  await makeDataDir(dataDir)
  if (storageUrl !== null) info(`storing attachments in the bucket ${storageUrl.bucket} (STORAGE_URL)`)
}

const logReady = ({ publicUrl }: Config, { info }: ServiceProcess, url: string): void =>
  info(`ready and listening; Swagger UI is at ${publicUrl ?? url}/docs`)

/** The parts that metrics and traces observe. */
interface Parts {
  readonly database: Database
  readonly storage: Storage
  readonly passwords: PasswordHasher
  readonly openMailer: OpenMailer
}

interface ObservedParts extends Parts {
  readonly observers: readonly ((app: FastifyInstance) => void)[]
}

/** Adds traces and metrics to the parts, if they are configured; their modules are loaded only then. */
const observe = async (config: Config, process: ServiceProcess, parts: Parts): Promise<ObservedParts> => {
  const { metricsPort, traces } = config
  const { info, onShutdown, worker } = process
  let { database, storage, passwords, openMailer } = parts
  const observers: ((app: FastifyInstance) => void)[] = []
  if (traces) {
    const { startTracing } = await import('../observe/tracing.ts')
    const tracing = startTracing()
    onShutdown(() => tracing.close().catch(() => undefined))
    observers.push(tracing.traceRequests)
    database = instrumentDatabase(database, tracing.forStatements)
    storage = instrumentStorage(storage, tracing.forStorage)
    info('sending traces to the OpenTelemetry collector of OTEL_EXPORTER_OTLP_ENDPOINT')
  }
  if (metricsPort !== null) {
    const { createMetrics, exposeToSupervisor } = await import('../observe/metrics.ts')
    const metrics = createMetrics(() => parts.database.pending())
    observers.push(metrics.countRequests)
    database = instrumentDatabase(database, metrics.forStatements)
    storage = instrumentStorage(storage, metrics.forStorage)
    passwords = instrumentHasher(passwords, metrics.forHashes)
    openMailer = (log) => {
      const mailer = parts.openMailer(log)
      metrics.observeMails(() => mailer.pending())
      return mailer
    }
    const { registry: source } = metrics
    if (worker === null) await serveMetricsOf({ source, database: parts.database }, config, process)
    else exposeToSupervisor(metrics.registry, worker)
  }
  return {
    database,
    storage,
    passwords,
    openMailer,
    observers,
  }
}

/** Serves metrics to Prometheus on METRICS_PORT: those of `source`, and those of the installation. */
const serveMetricsOf = async (
  { source, database }: { readonly source: MetricsSource; readonly database: Database },
  config: Config,
  { info, onShutdown }: ServiceProcess,
): Promise<void> => {
  const { metricsPort, metricsHost, metricsToken } = config
  const { serveMetrics } = await import('../observe/metrics-server.ts')
  const { createInstallationMetrics, mergeMetrics } = await import('../observe/installation-metrics.ts')
  const installationMetrics = createInstallationMetrics({
    db: database,
    folders: {
      ...(config.databaseUrl === null && { database: config.dataDir }),
      ...(config.storageUrl === null && { attachments: filesFolder(config) }),
    },
  })
  const options = { host: metricsHost, port: metricsPort ?? 0, token: metricsToken }
  const server = await serveMetrics(mergeMetrics(source, installationMetrics), options).catch(
    (error: unknown) => {
      throw listenError({ prefix: 'METRICS_', ...options }, error)
    },
  )
  onShutdown(() => server.close())
  info(`metrics are at ${httpUrl(metricsHost, server.port)}/metrics`)
}

/** The server of DATABASE_URL, or PostgreSQL in DATA_DIR, which is started. */
const startDatabase = async (
  config: Config,
  { info, warn, onShutdown, fail }: ServiceProcess,
): Promise<ServerConnection> => {
  const { databaseUrl, dataDir, postgresBin, workers } = config
  if (databaseUrl !== null) {
    await expectComplete(dataDir)
    info('using the database server at DATABASE_URL')
    return { url: databaseUrl }
  }
  // Before anything is created.
  await hasDatabase(dataDir)
  if (!(await isMissing(retiredFolder(dataDir))))
    info(
      `${retiredFolder(dataDir)} is the database of 0.1 or 0.2, as it was when it was carried over. Going back to it loses what was written since. Remove it when you no longer need it`,
    )
  onShutdown(await lockFolder(dataDir, { info }, fail))
  const binaries = await findBinaries({ postgresBin, librariesFolder: librariesFolder(dataDir) })
  info(`starting PostgreSQL ${binaries.version} in ${dataDir}`)
  const postgres = await startPostgres({ dataDir, binaries, workers, log: { info, warn } })
  onShutdown(() => postgres.stop())
  return postgres.connection
}

/** The database that the supervisor has started. */
const connectionOfWorker = async ({ databaseUrl, dataDir }: Config): Promise<ServerConnection> =>
  databaseUrl === null ? connectionOf(dataDir) : { url: databaseUrl }

const openServiceDatabase = ({ databaseUrl, dataDir }: Config, connection: ServerConnection): Database =>
  databaseUrl === null
    ? refuseWritesBelow(minFreeBytes, postgresFolder(dataDir), openDatabase(connection))
    : openDatabase(connection)

const createMailer = async (mail: MailConfig, serviceUrl: () => string): Promise<OpenMailer> => {
  if (mail.kind === 'none') return noMailer
  if (mail.kind === 'log') return loggingMailer(serviceUrl)
  const { smtpMailer } = await import('../mail/smtp.ts')
  return smtpMailer(mail)
}

/** The URL of this process, with the port that the system chose for PORT=0. */
const listeningUrl = ({ host, port }: Config, address: string | AddressInfo | null): string =>
  httpUrl(host, typeof address === 'object' && address !== null ? address.port : port)
