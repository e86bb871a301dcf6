import type { FastifyInstance } from 'fastify'
import { mkdir } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { type AppDeps, buildApp } from './app.ts'
import { type PasswordHasher, passwordHasher } from './auth/passwords.ts'
import type { Config, MailConfig } from './config.ts'
import { type Database, openDatabase } from './db/client.ts'
import type { ConnectionOptions } from './db/connection.ts'
import { startEmbedded } from './db/embedded.ts'
import { keepEmbeddedTidy } from './db/maintenance.ts'
import { migrateWhenPossible, untilMigrated } from './db/when-migrated.ts'
import { openLog } from './log.ts'
import { loggingMailer, noMailer, type OpenMailer } from './mail/mailer.ts'
import { smtpMailer } from './mail/smtp.ts'
import { databaseAround, hasherAround, storageAround } from './observe/around.ts'
import { loadSecrets } from './secret.ts'
import { openStorage } from './storage/open.ts'
import type { Storage } from './storage/storage.ts'
import { createThumbnailer } from './thumbnailer.ts'

/** What the parts of the service need of the process that they are started in. */
export interface ServiceProcess {
  /** Tells the operator. */
  readonly say: (message: string) => void
  /** Leaves something to be done when the process ends, before what was left earlier. */
  readonly atEnd: (close: () => Promise<unknown>) => void
  /** Ends the process, since it cannot go on. */
  readonly fail: (error: unknown) => void
  /** Aborted when the process is to stop. */
  readonly stopping: AbortSignal
}

/**
 * Starts the service and resolves when it is ready. It listens before that, since a database that is not there yet, or
 * whose schema another process brings up to date, is waited for: until then everything that needs it is answered 503.
 */
export const start = async (config: Config, process: ServiceProcess): Promise<void> => {
  const { say, atEnd, stopping } = process
  const logStream = openLog()
  atEnd(() => logStream.flush())
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  if (config.storageUrl !== null)
    say(`keeping attachments in the bucket ${config.storageUrl.bucket} of STORAGE_URL`)
  const connection = await openConnection(config, process)
  const { database, storage, passwords, observers } = await observe(config, process, {
    database: openDatabase(connection),
    storage: await openStorage(config),
    passwords: passwordHasher(),
  })
  atEnd(() => database.close())
  say('bringing the schema up to date')
  const migrated = migrateWhenPossible(connection, { log: { warn: say }, signal: stopping })
  const { refusing, waiting } = untilMigrated(database, migrated)

  const app = await buildApp({
    config,
    db: refusing,
    backgroundDb: waiting,
    secrets: await loadSecrets(config),
    storage,
    passwords,
    thumbnailer: createThumbnailer(),
    logStream,
    openMailer: mailerOf(config.mail, () => listeningUrl(config, app.server.address())),
    observers,
  })
  atEnd(() => app.close())
  // The embedded database is there by now, and so soon up to date that nobody need be turned away.
  if (connection.kind === 'embedded') await migrated
  if (stopping.aborted) return
  await app.listen({ host: config.host, port: config.port })
  await migrated
  if (connection.kind === 'embedded') atEnd(keepEmbeddedTidy(database))
  say(
    `ready and listening; Swagger UI is at ${config.publicUrl ?? listeningUrl(config, app.server.address())}/docs`,
  )
}

/** The parts that are looked at. */
interface Observed {
  readonly database: Database
  readonly storage: Storage
  readonly passwords: PasswordHasher
}

/** The same parts, with whatever the configuration wants to know of them. What nobody wants is not loaded. */
const observe = async (
  { metricsPort, metricsHost, metricsToken, traces }: Config,
  { say, atEnd }: ServiceProcess,
  parts: Observed,
): Promise<Observed & { readonly observers: AppDeps['observers'] & object }> => {
  let { database, storage, passwords } = parts
  const observers: ((app: FastifyInstance) => void)[] = []
  if (traces) {
    const { startTracing } = await import('./observe/tracing.ts')
    const tracing = startTracing()
    atEnd(() => tracing.close().catch(() => undefined))
    observers.push(tracing.ofRequests)
    database = databaseAround(database, tracing.aroundStatements)
    storage = storageAround(storage, tracing.aroundStorage)
    say('sending traces to the OpenTelemetry collector of OTEL_EXPORTER_OTLP_ENDPOINT')
  }
  if (metricsPort !== null) {
    const { createMetrics } = await import('./observe/metrics.ts')
    const { serveMetrics } = await import('./observe/metrics-server.ts')
    const metrics = createMetrics(() => parts.database.pending())
    observers.push(metrics.ofRequests)
    database = databaseAround(database, metrics.aroundStatements)
    storage = storageAround(storage, metrics.aroundStorage)
    passwords = hasherAround(passwords, metrics.aroundHashes)
    const server = await serveMetrics(metrics.registry, {
      host: metricsHost,
      port: metricsPort,
      token: metricsToken,
    })
    atEnd(() => server.close())
    say(`metrics are at http://${metricsHost}:${server.port}/metrics`)
  }
  return { database, storage, passwords, observers }
}

/** The configured server, or the embedded database when there is none. */
const openConnection = async (
  { databaseUrl, dataDir }: Config,
  { say, atEnd, fail }: ServiceProcess,
): Promise<ConnectionOptions> => {
  if (databaseUrl !== null) {
    say('using the database server of DATABASE_URL')
    return { kind: 'server', url: databaseUrl }
  }
  say(`starting the embedded database in ${dataDir} (the first start prepares it, which takes a few seconds)`)
  const embedded = await startEmbedded({ dataDir, log: { info: say, warn: say }, onFailure: fail })
  atEnd(() => embedded.close())
  return embedded.connection
}

const mailerOf = (mail: MailConfig, whereItListens: () => string): OpenMailer => {
  if (mail.kind === 'smtp') return smtpMailer(mail)
  return mail.kind === 'log' ? loggingMailer(whereItListens) : noMailer
}

/** Where the process listens, with the port that the system chose if it was to choose one. */
const listeningUrl = ({ host, port }: Config, address: string | AddressInfo | null): string =>
  `http://${host}:${typeof address === 'object' && address !== null ? address.port : port}`
