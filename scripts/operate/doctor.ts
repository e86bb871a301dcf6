import { Redis } from 'ioredis'
import { randomBytes, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, cp, mkdtemp, readdir, readFile, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { issueLinkToken } from '../../src/auth/file-links.ts'
import { deriveKeys } from '../../src/auth/keys.ts'
import { type Config, ConfigError, readConfig, unknownSettings } from '../../src/config/config.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { isMissing } from '../../src/data-dir/folder.ts'
import { expectComplete } from '../../src/data-dir/interrupted.ts'
import { type ServerConnection, maxStatementTime } from '../../src/db/engine/connection.ts'
import { diagnose } from '../../src/db/engine/diagnosis.ts'
import { DatabaseUnsuitable } from '../../src/db/engine/errors.ts'
import { freeBytesOf } from '../../src/data-dir/disk-space.ts'
import { FolderInUse, isLocked } from '../../src/data-dir/lock.ts'
import { readMigrationState } from '../../src/db/engine/migrate.ts'
import { createProviders } from '../../src/oidc/providers.ts'
import { verifySmtp } from '../../src/mail/smtp.ts'
import { httpUrl } from '../../src/http/url.ts'
import { AddressUnavailable, expectOwnAddress } from '../../src/process/own-host.ts'
import { type Binaries, findBinaries, releaseOf } from '../../src/postgres/binaries.ts'
import { hasDatabase, initialBytes, postgresFolder } from '../../src/postgres/cluster.ts'
import { minFreeBytes } from '../../src/postgres/settings.ts'
import { readGeneratedSecret } from '../../src/process/secrets.ts'
import { type Ownership, ownershipOf, ownershipConflict } from '../../src/jobs/ownership.ts'
import { filesFolder, openStorage } from '../../src/storage/open.ts'
import { connectToRunning, startStopped } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Checks the configuration and everything that the service depends on. Each failure says how to fix it:
 *
 *     npm run doctor
 *
 * It changes nothing, but writes and deletes a test object in the bucket of STORAGE_URL. It fails wherever the start would. Exits with 0
 * if all checks pass, else with 1.
 */

const deadline = 120_000

/** The oldest version of PostgreSQL that the tests run on. */
const minVersion = 150_000

/** Milliseconds. Access tokens allow 30 s of clock skew, but users see the times of rows. */
const maxSkew = 5_000

/** A failed check. The message tells the operator what to do. */
class Fault extends Error {}

/** Resolves to a note, or to null if the configuration does not use what is checked. @throws Fault if the check fails */
type Check = (config: Config, t: Teardown) => Promise<string | null>

const checkAddresses: Check = async (config) => {
  const { host, port, metricsHost, metricsPort } = config
  const metrics = { prefix: 'METRICS_', host: metricsHost, port: metricsPort ?? 0 } as const
  try {
    await expectOwnAddress({ prefix: '', host, port })
  } catch (error) {
    if (!(error instanceof AddressUnavailable) || !(await isServedBy(config))) throw error
    await expectOwnAddress({ ...metrics, port: 0 })
    return `port ${port} of ${host} is in use by the running service`
  }
  if (metricsPort !== null) await expectOwnAddress(metrics)
  return `${host} is an address of this machine`
}

/** Whether the program that listens on the configured port is the running service: only with its secret, a link has expired. */
const isServedBy = async ({ host, port, dataDir, jwtSecrets }: Config): Promise<boolean> => {
  const reachable = host === '0.0.0.0' || host === '::' ? 'localhost' : host
  const [resourceId, userId, id] = [randomUUID(), randomUUID(), randomUUID()]
  try {
    const secret = jwtSecrets === null ? await readGeneratedSecret(dataDir) : Buffer.from(jwtSecrets[0])
    if (secret === null) return false
    const token = issueLinkToken(deriveKeys([secret], 'attachment-link'), {
      resourceId,
      disposition: 'attachment',
      expiresAt: 0,
      userId,
      createdWith: { kind: 'session', id },
    })
    const { status } = await fetch(
      `${httpUrl(reachable, port)}/attachments/${resourceId}/content?token=${token}`,
      { signal: AbortSignal.timeout(5_000) },
    )
    return status === 410
  } catch {
    return false
  }
}

/** Files and connections that an idle service has open, and some more. */
const minOpenFiles = 256

/** Node.js has raised the limit of this process to the highest that is allowed, as for the service. */
const checkOpenFiles: Check = async () => {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '')
  const [, limit = 'unlimited'] = /^Max open files +(\w+)/m.exec(limits) ?? []
  if (Number(limit) < minOpenFiles)
    throw new Fault(
      `This user can open ${limit} files, of which the service needs ${minOpenFiles}, and one more for each connection. Raise the limit (ulimit -n, LimitNOFILE of systemd).`,
    )
  return `the limit is ${limit}`
}

/** The folder, or its nearest ancestor that exists. */
const nearestFolder = async (path: string): Promise<string> =>
  (await isMissing(path)) ? nearestFolder(dirname(path)) : path

const mebibytes = (bytes: number): number => Math.floor(bytes / 1_048_576)

const neededBytes = async (dataDir: string): Promise<number> =>
  minFreeBytes + ((await hasDatabase(dataDir)) ? 0 : initialBytes)

const checkFolder: Check = async ({ dataDir, databaseUrl, jwtSecrets }) => {
  let folder = dataDir
  try {
    folder = await nearestFolder(dataDir)
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new Fault(
      `DATA_DIR ${dataDir} is not writable: ${messageOf(error)}. Make the service user its owner, or choose another folder.`,
    )
  }
  await expectComplete(dataDir)
  const freeBytes = await freeBytesOf(folder)
  if (freeBytes < (databaseUrl === null ? await neededBytes(dataDir) : 1))
    throw new Fault(
      `The disk with DATA_DIR ${dataDir} is full: ${mebibytes(freeBytes)} MiB are free. Free up space, or choose another folder.`,
    )
  if (jwtSecrets === null && (await readGeneratedSecret(dataDir)) !== null) {
    const { mode } = await stat(join(dataDir, 'jwt-secret'))
    if (process.platform !== 'win32' && (mode & 0o077) !== 0)
      throw new Fault(`Other users can read ${join(dataDir, 'jwt-secret')}. Set its mode to 600 (chmod 600).`)
  }
  return folder === dataDir
    ? `${dataDir} is writable`
    : `${dataDir} does not exist yet; the first start creates it in ${folder}`
}

let connecting: Promise<ServerConnection> | null = null

/** Checks share the connection, because copying a database takes time. */
const connect = (config: Config, t: Teardown): Promise<ServerConnection> =>
  (connecting ??= openUnchanged(config, t))

/** The database of DATABASE_URL, the one that the running service has started, or a copy of one that does not run. */
const openUnchanged = async (config: Config, t: Teardown): Promise<ServerConnection> =>
  config.databaseUrl === null
    ? ((await connectToRunning(config.dataDir)) ?? openCopy(t, config))
    : { url: config.databaseUrl }

/**
 * Starts PostgreSQL with a copy of the database, since it writes to a database that it opens.
 *
 * @throws FolderInUse if a service is starting or stopping it
 */
const openCopy = async (t: Teardown, { dataDir, postgresBin }: Config): Promise<ServerConnection> => {
  if (await isLocked(dataDir)) throw new FolderInUse(dataDir)
  const folder = await realpath(postgresFolder(dataDir))
  const size = await expectUsableFiles(folder)
  const scratch = await mkdtemp(join(tmpdir(), 'taskwright-doctor-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  const freeBytes = await freeBytesOf(scratch)
  if (freeBytes < size + minFreeBytes)
    throw new Fault(
      `It has ${mebibytes(size)} MiB, and ${tmpdir()}, where a copy is checked, only ${mebibytes(freeBytes)} MiB of free space. Set TMPDIR to a folder with more.`,
    )
  await cp(folder, postgresFolder(scratch), { recursive: true, mode: constants.COPYFILE_FICLONE })
  // The copy of a database that the service has opened meanwhile may be damaged.
  if (await isLocked(dataDir)) throw new FolderInUse(dataDir)
  return startStopped(t, { dataDir: scratch, postgresBin })
}

/** The size of all files in a folder, which must be readable and writable. */
const expectUsableFiles = async (folder: string): Promise<number> => {
  let size = 0
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const executable = entry.isDirectory() ? constants.X_OK : 0
    await access(path, constants.R_OK | constants.W_OK | executable)
    size += (await stat(path)).size
  }
  return size
}

/** A duration in milliseconds, in the largest unit of which it has two or more. */
const durationText = (milliseconds: number): string => {
  const seconds = Math.round(milliseconds / 1_000)
  const units = [
    ['days', 86_400],
    ['hours', 3_600],
    ['minutes', 60],
  ] as const
  const [unit, length] = units.find(([, each]) => seconds >= 2 * each) ?? ['seconds', 1]
  return `${Math.round(seconds / length)} ${unit}`
}

const checkDatabase: Check = async (config, t) => {
  const isOwn = config.databaseUrl === null
  if (isOwn && !(await hasDatabase(config.dataDir)))
    return 'none yet; the first start creates one in DATA_DIR'
  try {
    const connection = await connect(config, t)
    const { version, mayMigrate, deniedTables, takesWrites, clockAhead, ...sessions } =
      await diagnose(connection)
    const { applied, pending, unknown } = await readMigrationState(connection)
    const name = `PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000}`
    if (version < minVersion) throw new Fault(`${name} is not supported. Upgrade to PostgreSQL 15 or newer.`)
    if (!takesWrites)
      throw new Fault(
        'It is read-only: it is a standby, or default_transaction_read_only is on. Set DATABASE_URL to the primary, or turn the setting off.',
      )
    if (pending > 0 && !mayMigrate)
      throw new Fault(
        'The schema must be migrated, but the database user lacks the permission. Make the user the owner of the database (ALTER DATABASE … OWNER TO …) and of its tables (REASSIGN OWNED BY … TO …).',
      )
    if (deniedTables !== null)
      throw new Fault(
        `The database user lacks permissions on ${deniedTables}. Set DATABASE_URL to the user that created them, or change their owner: REASSIGN OWNED BY … TO ….`,
      )
    if (Math.abs(clockAhead) > maxSkew)
      throw new Fault(
        `Its clock is ${durationText(Math.abs(clockAhead))} ${clockAhead > 0 ? 'ahead of' : 'behind'} this machine's. Synchronize both with NTP.`,
      )
    const { statementTimeout, notifies } = sessions
    if (statementTimeout === 0 || statementTimeout > maxStatementTime)
      throw new Fault(
        `A connection pooler ignores the statement_timeout that the service sets. Set it for the user: ALTER ROLE … SET statement_timeout = '${maxStatementTime}ms'.`,
      )
    const notificationNote = notifies
      ? ''
      : '; it delivers no notifications, as behind a pooler by transaction: what one process revokes works in others for up to 5 seconds'
    const pendingNote = pending > 0 ? `; the next start applies ${pending} migrations` : ''
    const unknownNote =
      unknown > 0
        ? `; ${unknown} more are from a newer version of Taskwright: this version can use it only during a rolling upgrade`
        : ''
    return `${name}${isOwn ? ' in DATA_DIR' : ''}, ${applied} migrations applied${pendingNote}${unknownNote}${notificationNote}`
  } catch (error) {
    if (error instanceof FolderInUse) return 'a service is starting or stopping it; check GET /health/ready'
    if (error instanceof DatabaseUnsuitable) throw new Fault(error.message)
    if (error instanceof Fault || isOwn) throw error
    throw new Fault(
      `${messageOf(error)}. Check DATABASE_URL, and that the server is running and accepts this user.`,
    )
  }
}

/** What the service would start. Its age is known if it is that of the npm package. */
const checkPostgres: Check = async ({ databaseUrl, postgresBin }, t) => {
  if (databaseUrl !== null) return null
  const librariesFolder = await mkdtemp(join(tmpdir(), 'taskwright-libraries-'))
  t.teardown(() => rm(librariesFolder, { recursive: true, force: true }))
  const { folder, version }: Binaries = await findBinaries({ postgresBin, librariesFolder })
  const release = releaseOf(version)
  const age =
    release === null
      ? ''
      : `, released on ${release.toISOString().slice(0, 10)}, ${durationText(Date.now() - release.getTime())} ago`
  return `${version}${age}, in ${folder}`
}

const checkStorage: Check = (config, t) =>
  config.storageUrl === null ? checkFilesFolder(config) : checkBucket(config, config.storageUrl.bucket, t)

const checkFilesFolder = async (config: Config): Promise<string> => {
  const folder = filesFolder(config)
  if (await isMissing(folder)) {
    await expectAboveReserve(config, await nearestFolder(folder))
    return 'none yet; the first start creates a folder in DATA_DIR'
  }
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name))
    for (const path of [folder, ...folders])
      await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new Fault(`${messageOf(error)}. Make the service user its owner.`)
  }
  await expectAboveReserve(config, folder)
  return `${folder} is writable`
}

const expectAboveReserve = async (
  { diskReserveBytes }: Pick<Config, 'diskReserveBytes'>,
  folder: string,
): Promise<void> => {
  const freeBytes = await freeBytesOf(folder)
  if (diskReserveBytes > 0 && freeBytes <= diskReserveBytes)
    throw new Fault(
      `The disk with ${folder} has ${mebibytes(freeBytes)} MiB free, which does not exceed DISK_RESERVE_BYTES, so uploads are rejected. Free up space.`,
    )
}

/** Only a write shows whether the credentials have the permission. */
const checkBucket = async (config: Config, bucket: string, t: Teardown): Promise<string> => {
  const content = randomBytes(1_024)
  try {
    const storage = await openStorage(config)
    t.teardown(() => storage.close())
    const { key } = await storage.put(Readable.from([content]), { maxBytes: content.length })
    try {
      const read = await buffer(await storage.open(key))
      if (!read.equals(content))
        throw new Error('The object that was read differs from the one that was written')
    } finally {
      await storage.remove(key)
    }
  } catch (error) {
    throw new Fault(
      `${messageOf(error)}. Check STORAGE_URL, the credentials, and that they have the permissions listed in docs/operations/install.md.`,
    )
  }
  return `an object was written, read and deleted in the bucket ${bucket}`
}

/** Whether a background job may delete unreferenced files. Errors are ignored: the checks of the database and the storage report them. */
const checkOwner: Check = async (config, t) => {
  const ownership = await readOwnership(config, t).catch(() => null)
  if (ownership === null) return null
  const reason = ownershipConflict(ownership)
  if (reason === null) return 'they belong to this database'
  throw new Fault(
    `${reason}, so no unreferenced files are deleted. Check DATABASE_URL, DATA_DIR and STORAGE_URL. If the database was restored or moved and is now the current one, run npm run admin -- storage adopt.`,
  )
}

const readOwnership = async (config: Config, t: Teardown): Promise<Ownership | null> => {
  if (config.storageUrl === null && (await isMissing(filesFolder(config)))) return null
  const db = openDatabase(await connect(config, t))
  t.teardown(() => db.close())
  const storage = await openStorage(config, { mayCreate: false })
  t.teardown(() => storage.close())
  return ownershipOf(db, storage)
}

const checkRedis: Check = async ({ redisUrl }) => {
  if (redisUrl === null) return null
  const client = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: 5_000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  })
  // Without a listener, ioredis prints errors with their stack.
  let reason = ''
  client.on('error', (error) => (reason = error.message))
  try {
    await client.connect()
    await client.ping()
    return 'it responds'
  } catch (error) {
    throw new Fault(
      `${reason || messageOf(error)}. Check REDIS_URL; until then each process counts requests separately.`,
    )
  } finally {
    client.disconnect()
  }
}

const checkMail: Check = async ({ mail }) => {
  if (mail.kind !== 'smtp') return null
  try {
    await verifySmtp(mail.server)
    return `${mail.server.host} accepts the connection`
  } catch (error) {
    throw new Fault(`${messageOf(error)}. Check SMTP_URL; until then forgotten passwords cannot be reset.`)
  }
}

/** A provider that is down keeps its users out, but not the service from starting. */
const checkProviders: Check = async ({ oidc }) => {
  if (oidc === null) return null
  const { all } = createProviders(oidc)
  const results = await Promise.allSettled(all.map((provider) => provider.discover()))
  const faults = results.flatMap((result) => (result.status === 'rejected' ? [messageOf(result.reason)] : []))
  if (faults.length > 0) throw new Fault(`${faults.join('. ')}. Check OIDC_CONFIG.`)
  return all.map(({ settings, redirectUri }) => `${settings.id} has to know ${redirectUri}`).join('; ')
}

const checks: Readonly<Record<string, Check>> = {
  'open files': checkOpenFiles,
  host: checkAddresses,
  folder: checkFolder,
  postgres: checkPostgres,
  database: checkDatabase,
  storage: checkStorage,
  files: checkOwner,
  redis: checkRedis,
  email: checkMail,
  oidc: checkProviders,
}

/** The message of an error and its causes, which include the error of the operating system. */
const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const { message, cause } = error
  return cause instanceof Error && !message.includes(cause.message)
    ? `${message}: ${messageOf(cause)}`
    : message
}

const runCheck = async (name: string, check: Check, config: Config, t: Teardown): Promise<boolean> => {
  try {
    const note = await check(config, t)
    if (note !== null) console.log(`ok     ${name}: ${note}`)
    return true
  } catch (error) {
    console.log(`FAIL   ${name}: ${messageOf(error)}`)
    return false
  }
}

helpIfAsked(`Usage: npm run doctor

Checks the configuration and everything that the service depends on, and says what to do. Exits with 0 if the service can start.`)

await runToEnd('doctor', deadline, async (t) => {
  let passed = true
  try {
    const config = readConfig()
    console.log('ok     configuration')
    for (const warning of unknownSettings()) console.log(`warn   configuration: ${warning}`)
    for (const [name, check] of Object.entries(checks))
      passed = (await runCheck(name, check, config, t)) && passed
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    console.log(`FAIL   ${error.message}`)
    passed = false
  }
  console.log(passed ? 'All checks passed.' : 'Some checks failed; see above.')
  process.exitCode = passed ? 0 : 1
})
