import type { FastifyInstance } from 'fastify'
import type { AddressInfo } from 'node:net'
import { type AppDeps, buildApp } from '../app.ts'
import { type PasswordHasher, passwordHasher } from '../auth/passwords.ts'
import { startWorkers } from './workers/primary.ts'
import { connectToPrimary, isWorker } from './workers/worker.ts'
import { type Config, type MailConfig, readLogFormat } from '../config/config.ts'
import { makeDataDir } from './data-dir.ts'
import { type Database, openDatabase } from '../db/engine/client.ts'
import type { ConnectionOptions } from '../db/engine/connection.ts'
import { startEmbedded } from '../db/engine/embedded.ts'
import { keepEmbeddedTidy } from '../db/engine/maintenance.ts'
import { migrateWhenPossible, untilMigrated } from '../db/engine/when-migrated.ts'
import { listenAddress } from '../http/listen.ts'
import { httpUrl } from '../http/url.ts'
import { createThumbnailer } from '../images/thumbnailer.ts'
import { openLog } from '../observe/log.ts'
import { loggingMailer, noMailer, type OpenMailer } from '../mail/mailer.ts'
import { databaseAround, hasherAround, storageAround } from '../observe/around.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { MetricsSource } from '../observe/metrics-server.ts'
import { expectOwnHost } from './own-host.ts'
import { loadSecrets } from './secrets.ts'
import { openStorage } from '../storage/open.ts'
import type { Storage } from '../storage/storage.ts'
import { startWatchdog } from './watchdog.ts'

/** What the parts of the service need of the process that they are started in. */
export interface ServiceProcess {
  /** Tells the operator. */
  readonly say: (message: string) => void
  /** Warns the operator. */
  readonly warn: (message: string) => void
  /** Leaves something to be done when the process ends, before what was left earlier. */
  readonly atEnd: (close: () => Promise<unknown>) => void
  /** Ends the process, since it cannot go on. */
  readonly fail: (error: unknown) => void
  /** Aborted when the process is to stop. */
  readonly stopping: AbortSignal
  /** Ends the process when it has finished what it has begun. */
  readonly stop: () => void
}

/**
 * Starts the service and resolves when it is ready. It listens before that, since a database that is not there yet, or
 * whose schema another process brings up to date, is waited for: until then everything that needs it is answered 503.
 */
export const start = (config: Config, process: ServiceProcess): Promise<void> => {
  if (isWorker(config)) return startWorker(config, process)
  return config.workers > 1 ? startPrimary(config, process) : startAlone(config, process)
}

/** One process that does everything. */
const startAlone = async (config: Config, process: ServiceProcess): Promise<void> => {
  const { say, warn, atEnd, stopping } = process
  await prepare(config, process)
  const connection = await openConnection(config, process)
  say('migrating the database schema')
  const migrated = migrateWhenPossible(connection, { log: { warn }, signal: stopping })
  const served = await serve(config, process, {
    connection,
    migrated,
    passwords: passwordHasher(),
    offerMetrics: ({ registry }) => offerMetrics(registry, config, process),
  })
  if (served === null) return
  await migrated
  if (connection.kind === 'embedded') atEnd(keepEmbeddedTidy(served.database))
  sayReady(config, process, served.url)
}

/** The process that starts the workers: it answers no requests, and does what is to be done once. */
const startPrimary = async (config: Config, process: ServiceProcess): Promise<void> => {
  const { say, warn, atEnd, stopping } = process
  await prepare(config, process)
  const connection = await openConnection(config, process)
  // Made here if need be, before any worker wants it.
  await loadSecrets(config)
  say(`starting ${config.workers} workers`)
  const workers = startWorkers(config.workers, { say: warn })
  if (config.metricsPort !== null) {
    const { metricsOfWorkers } = await import('../observe/metrics.ts')
    await offerMetrics(metricsOfWorkers(workers.readMetrics), config, process)
  }
  // What is left later is done first: the metrics are there until the last worker has ended.
  atEnd(() => workers.stop())
  say('migrating the database schema')
  const migrated = migrateWhenPossible(connection, { log: { warn }, signal: stopping })
  await Promise.race([migrated, workers.failed])
  workers.tellMigrated()
  sayReady(config, process, await Promise.race([workers.ready, workers.failed]))
}

/** One of several processes that answer requests. */
const startWorker = async (config: Config, process: ServiceProcess): Promise<void> => {
  const primary = await connectToPrimary(process.stop)
  const served = await serve(config, process, {
    connection: await openConnection(config, process),
    migrated: primary.migrated,
    passwords: passwordHasher({ inTurn: primary.hashesInTurn }),
    offerMetrics: async ({ registry }) => primary.onReadMetrics(() => registry.getMetricsAsJSON()),
    peers: primary,
  })
  if (served === null) return
  await primary.migrated
  await primary.ready(served.url)
}

/** What differs between one process that does everything and one of several. */
interface Parts extends Pick<AppDeps, 'passwords' | 'peers'> {
  readonly connection: ConnectionOptions
  readonly migrated: Promise<void>
  /** Lets others read the metrics, if the configuration wants any. */
  readonly offerMetrics: (metrics: Metrics) => Promise<void>
}

/** Connections that may wait to be taken; the system may allow fewer. */
const mostConnecting = 4_096

/** Listens, and resolves to where; to null when the process stops meanwhile. */
const serve = async (
  config: Config,
  process: ServiceProcess,
  { connection, migrated, offerMetrics, passwords: unobserved, peers }: Parts,
): Promise<{ readonly database: Database; readonly url: string } | null> => {
  const { atEnd, fail, stopping } = process
  startWatchdog({ format: readLogFormat(), worker: peers?.worker ?? null, onError: fail })
  const logStream = openLog({ isShared: isWorker(config) })
  atEnd(() => logStream.flush())
  // It is awaited below; until then a failure is not overlooked.
  migrated.catch(() => undefined)
  const { database, storage, passwords, observers } = await observe(config, process, offerMetrics, {
    database: openDatabase(connection),
    storage: await openStorage(config),
    passwords: unobserved,
  })
  atEnd(() => database.close())
  const { refusing, waiting } = untilMigrated(database, migrated, stopping)

  const app = await buildApp({
    config,
    db: refusing,
    backgroundDb: waiting,
    secrets: await loadSecrets(config),
    storage,
    passwords,
    thumbnailer: createThumbnailer(),
    logStream,
    openMailer: await mailerOf(config.mail, () => listeningUrl(config, app.server.address())),
    observers,
    ...(peers && { peers }),
  })
  atEnd(() => app.close())
  // The embedded database is there by now, and so soon up to date that nobody need be turned away.
  if (connection.kind === 'embedded') await migrated
  if (stopping.aborted) return null
  await app.listen({ host: listenAddress(config.host), port: config.port, backlog: mostConnecting })
  // Where it listens is told before it is said that it is ready.
  await logStream.flush()
  return { database, url: listeningUrl(config, app.server.address()) }
}

const prepare = async (
  { host, metricsHost, metricsPort, dataDir, storageUrl }: Config,
  { say }: Pick<ServiceProcess, 'say'>,
): Promise<void> => {
  await expectOwnHost('HOST', host)
  if (metricsPort !== null) await expectOwnHost('METRICS_HOST', metricsHost)
  await makeDataDir(dataDir)
  if (storageUrl !== null) say(`storing attachments in the bucket ${storageUrl.bucket} (STORAGE_URL)`)
}

const sayReady = ({ publicUrl }: Config, { say }: ServiceProcess, url: string): void =>
  say(`ready and listening; Swagger UI is at ${publicUrl ?? url}/docs`)

/** The parts that are looked at. */
interface Observed {
  readonly database: Database
  readonly storage: Storage
  readonly passwords: PasswordHasher
}

/** The same parts, with whatever the configuration wants to know of them. What nobody wants is not loaded. */
const observe = async (
  { metricsPort, traces }: Config,
  { say, atEnd }: ServiceProcess,
  offerMetrics: Parts['offerMetrics'],
  parts: Observed,
): Promise<Observed & { readonly observers: AppDeps['observers'] & object }> => {
  let { database, storage, passwords } = parts
  const observers: ((app: FastifyInstance) => void)[] = []
  if (traces) {
    const { startTracing } = await import('../observe/tracing.ts')
    const tracing = startTracing()
    atEnd(() => tracing.close().catch(() => undefined))
    observers.push(tracing.ofRequests)
    database = databaseAround(database, tracing.aroundStatements)
    storage = storageAround(storage, tracing.aroundStorage)
    say('sending traces to the OpenTelemetry collector at OTEL_EXPORTER_OTLP_ENDPOINT')
  }
  if (metricsPort !== null) {
    const { createMetrics } = await import('../observe/metrics.ts')
    const metrics = createMetrics(() => parts.database.pending())
    observers.push(metrics.ofRequests)
    database = databaseAround(database, metrics.aroundStatements)
    storage = storageAround(storage, metrics.aroundStorage)
    passwords = hasherAround(passwords, metrics.aroundHashes)
    await offerMetrics(metrics)
  }
  return { database, storage, passwords, observers }
}

/** Lets Prometheus read metrics on METRICS_PORT. */
const offerMetrics = async (
  source: MetricsSource,
  { metricsPort, metricsHost, metricsToken }: Config,
  { say, atEnd }: ServiceProcess,
): Promise<void> => {
  const { serveMetrics } = await import('../observe/metrics-server.ts')
  const options = { host: metricsHost, port: metricsPort ?? 0, token: metricsToken }
  const server = await serveMetrics(source, options)
  atEnd(() => server.close())
  say(`metrics are at ${httpUrl(metricsHost, server.port)}/metrics`)
}

/** The configured server, or the embedded database when there is none. */
const openConnection = async (
  { databaseUrl, dataDir }: Config,
  { say, warn, atEnd, fail }: ServiceProcess,
): Promise<ConnectionOptions> => {
  if (databaseUrl !== null) {
    say('using the database server at DATABASE_URL')
    return { kind: 'server', url: databaseUrl }
  }
  say(`starting the embedded database in ${dataDir} (the first start takes a few seconds to initialize it)`)
  const embedded = await startEmbedded({ dataDir, log: { info: say, warn }, onFailure: fail })
  atEnd(() => embedded.close())
  return embedded.connection
}

const mailerOf = async (mail: MailConfig, whereItListens: () => string): Promise<OpenMailer> => {
  if (mail.kind === 'none') return noMailer
  if (mail.kind === 'log') return loggingMailer(whereItListens)
  const { smtpMailer } = await import('../mail/smtp.ts')
  return smtpMailer(mail)
}

/** Where the process listens, with the port that the system chose if it was to choose one. */
const listeningUrl = ({ host, port }: Config, address: string | AddressInfo | null): string =>
  httpUrl(host, typeof address === 'object' && address !== null ? address.port : port)
