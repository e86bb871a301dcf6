import { mkdir } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { buildApp } from './app.ts'
import { passwordHasher } from './auth/passwords.ts'
import { type Config, ConfigError, type MailConfig, readConfig } from './config.ts'
import { migrate, openDatabase } from './db/client.ts'
import type { ConnectionOptions } from './db/connection.ts'
import { FolderInUse, startEmbedded } from './db/embedded.ts'
import { DatabaseUnavailable } from './db/errors.ts'
import { keepEmbeddedTidy } from './db/maintenance.ts'
import { loggingMailer, noMailer, type OpenMailer } from './mail/mailer.ts'
import { smtpMailer } from './mail/smtp.ts'
import { loadSecrets } from './secret.ts'
import { openStorage } from './storage/open.ts'
import { createThumbnailer } from './thumbnailer.ts'

/** Runs when the process ends, the last first. */
const closers: (() => Promise<unknown>)[] = []

/** Milliseconds that a clean stop may take. */
const closeDeadline = 30_000

/**
 * Milliseconds after the first signal in which more of them mean nothing: a terminal sends Ctrl-C to npm and to this
 * process, and npm passes it on.
 */
const echo = 1_000

const say = (message: string): void => console.log(`taskwright: ${message}`)

/** Ends the process with what went wrong: in a line if an operator can mend it, in full if only we can. */
const fail = (error: unknown): never => {
  if (!isOperational(error)) console.error(error)
  console.error(`taskwright: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
}

/** Bad configuration, a database that is not there, a folder in use, and what the system refuses. */
const isOperational = (error: unknown): boolean =>
  error instanceof ConfigError ||
  error instanceof DatabaseUnavailable ||
  error instanceof FolderInUse ||
  (error instanceof Error && 'syscall' in error)

const start = async (): Promise<void> => {
  const config = readConfig()
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  const connection = await openConnection(config)
  say('bringing the schema up to date')
  await migrate(connection)
  const db = openDatabase(connection)
  closers.push(() => db.close())
  if (connection.kind === 'embedded') closers.push(keepEmbeddedTidy(db))

  if (config.storageUrl !== null)
    say(`keeping attachments in the bucket ${config.storageUrl.bucket} of STORAGE_URL`)
  const app = await buildApp({
    config,
    db,
    secrets: await loadSecrets(config),
    storage: await openStorage(config),
    passwords: passwordHasher(),
    thumbnailer: createThumbnailer(),
    openMailer: mailerOf(config.mail, () => listeningUrl(config, app.server.address())),
  })
  closers.push(() => app.close())
  if (stoppingSince !== null) return
  await app.listen({ host: config.host, port: config.port })
  say(`listening; Swagger UI is at ${config.publicUrl ?? listeningUrl(config, app.server.address())}/docs`)
}

const mailerOf = (mail: MailConfig, whereItListens: () => string): OpenMailer => {
  if (mail.kind === 'smtp') return smtpMailer(mail)
  return mail.kind === 'log' ? loggingMailer(whereItListens) : noMailer
}

/** Where the process listens, with the port that the system chose if it was to choose one. */
const listeningUrl = ({ host, port }: Config, address: string | AddressInfo | null): string =>
  `http://${host}:${typeof address === 'object' && address !== null ? address.port : port}`

/** The configured server, or the embedded database when there is none. */
const openConnection = async ({ databaseUrl, dataDir }: Config): Promise<ConnectionOptions> => {
  if (databaseUrl !== null) {
    say('using the database server of DATABASE_URL')
    return { kind: 'server', url: databaseUrl }
  }
  say(`starting the embedded database in ${dataDir} (the first start prepares it, which takes a few seconds)`)
  const log = { info: say, warn: say }
  const embedded = await startEmbedded({ dataDir, log, onFailure: fail })
  closers.push(() => embedded.close())
  return embedded.connection
}

const stop = async (signal: string): Promise<void> => {
  say(`stopping after ${signal}; finishing what has begun (again to stop at once)`)
  setTimeout(() => fail(new Error('could not stop in time')), closeDeadline).unref()
  for (const close of closers.toReversed()) await close()
  say('stopped')
  process.exit(0)
}

let stoppingSince: number | null = null

const onSignal = (signal: string): void => {
  if (stoppingSince === null) {
    stoppingSince = performance.now()
    stop(signal).catch(fail)
  } else if (performance.now() - stoppingSince > echo) {
    process.exit(130)
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal)

start().catch(async (error: unknown) => {
  for (const close of closers.toReversed()) await close().catch(() => undefined)
  fail(error)
})
