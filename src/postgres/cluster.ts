import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { FolderUnusable, isMissing, syncFolder } from '../data-dir/folder.ts'
import { CommandInterrupted, expectComplete } from '../data-dir/interrupted.ts'
import { DiskFull, freeBytesOf } from '../data-dir/disk-space.ts'
import type { ServerConnection } from '../db/engine/connection.ts'
import { ignoreMissing } from '../data-dir/system-errors.ts'
import { major, PostgresUnusable } from './binaries.ts'
import type { Launcher } from './launch.ts'
import type { Log } from './log.ts'
import { runProgram } from './program.ts'
import { minFreeBytes, settingArguments, socketPort } from './settings.ts'

/** The data folder of PostgreSQL in DATA_DIR. */
export const postgresFolder = (dataDir: string): string => join(dataDir, 'postgresql')

/** The folder for links to the libraries of the npm package with PostgreSQL. */
export const librariesFolder = (dataDir: string): string => join(dataDir, 'libraries')

/** The folder of the database of versions 0.1 and 0.2, which ran PostgreSQL in WebAssembly. */
export const earlierFolder = (dataDir: string): string => join(dataDir, 'postgres')

/** Where that database is after `npm run carry-over`, which has written its data to one of this version. */
export const retiredFolder = (dataDir: string): string => join(dataDir, 'postgres-before-0.3')

/** The role of the service and its database, which have the same name. */
const name = 'taskwright'

/** It is created with the cluster, so it also tells the cluster from one that another program has made. */
const passwordFile = (folder: string): string => join(folder, 'taskwright-password')

/** Bytes of a new cluster. */
export const initialBytes = 48 * 1_048_576

/**
 * Whether DATA_DIR has a database. Changes nothing.
 *
 * @throws PostgresUnusable for a database of an earlier version, of another major version of PostgreSQL, or of another program
 * @throws CommandInterrupted, FolderUnusable
 */
export const hasDatabase = async (dataDir: string): Promise<boolean> => {
  const folder = postgresFolder(dataDir)
  try {
    const names = (await isMissing(folder)) ? [] : await readdir(folder)
    await expectNoEarlierDatabase(dataDir, names.length > 0)
    await expectComplete(dataDir)
    if (names.length === 0) return false
    // An earlier version's folder has this file too, with the same number.
    const version = (await readFile(join(folder, 'PG_VERSION'), 'utf8').catch(ignoreMissing))?.trim()
    if (version !== undefined && version !== String(major))
      throw new PostgresUnusable(
        `${folder} is a database of PostgreSQL ${version}, and this version of Taskwright uses ${major}. Start the version that wrote it, and move the data with "npm run backup" and "npm run restore"`,
      )
    if ((await readFile(passwordFile(folder)).catch(ignoreMissing)) === undefined || version === undefined)
      throw new PostgresUnusable(
        `${folder} contains files, but no database of this service. Choose another DATA_DIR`,
      )
    return true
  } catch (error) {
    if (error instanceof PostgresUnusable || error instanceof CommandInterrupted) throw error
    throw new FolderUnusable(folder, error instanceof Error ? error.message : String(error), { cause: error })
  }
}

/**
 * Also beside a database of this version, since either can be the one with the newest changes.
 *
 * @throws PostgresUnusable
 */
const expectNoEarlierDatabase = async (dataDir: string, isBesideAnother: boolean): Promise<void> => {
  const folder = earlierFolder(dataDir)
  if (await isMissing(join(folder, 'PG_VERSION'))) return
  if (isBesideAnother)
    throw new PostgresUnusable(
      `DATA_DIR has two databases: ${folder} of Taskwright 0.1 or 0.2, and ${postgresFolder(dataDir)} of this version. If "npm run carry-over" was interrupted, run it again. Otherwise move the one away whose data is not to be used`,
    )
  throw new PostgresUnusable(
    `${folder} is a database of Taskwright 0.1 or 0.2, and was not changed. "npm run carry-over" writes its data to a database of this version`,
  )
}

/**
 * Creates the database, beside its final path: an interrupted creation leaves nothing that counts as a database.
 *
 * @throws DiskFull, PostgresUnusable
 */
export const createDatabase = async (dataDir: string, launcher: Launcher, log: Log): Promise<void> => {
  const freeBytes = await freeBytesOf(dataDir)
  if (freeBytes < minFreeBytes + initialBytes) throw new DiskFull(dataDir, freeBytes)
  log.info(`creating a database in ${dataDir}, which takes a few seconds`)
  const [folder, unfinished] = [postgresFolder(dataDir), `${postgresFolder(dataDir)}.new`]
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { mode: 0o700 })
  await runProgram(launcher, 'initdb', [
    `--pgdata=${unfinished}`,
    '--username=postgres',
    '--auth=reject',
    '--encoding=UTF8',
    '--no-locale',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--data-checksums',
    '--no-instructions',
    '--no-sync',
  ])
  const password = randomBytes(32).toString('hex')
  await runProgram(
    launcher,
    'postgres',
    ['--single', '-D', unfinished, ...settingArguments(creationSettings), 'template1'],
    creationStatements(password).join('\n'),
  )
  await writeFile(join(unfinished, 'pg_hba.conf'), accessRules)
  await writeFile(passwordFile(unfinished), password, { mode: 0o600 })
  await runProgram(launcher, 'initdb', [`--pgdata=${unfinished}`, '--sync-only'])
  await rename(unfinished, folder)
  await syncFolder(dirname(folder))
}

/** Everything is synced at once, at the end. */
const creationSettings = { fsync: 'off', log_line_prefix: '', log_checkpoints: 'off' }

/**
 * In the single-user mode, which ends before anything can connect. Nobody can sign in as the superuser later: its COPY … FROM PROGRAM is
 * a shell.
 */
const creationStatements = (password: string): readonly string[] => [
  `create role ${name} login password '${password}'`,
  `alter database postgres rename to ${name}`,
  `alter database ${name} owner to ${name}`,
]

/** pg_hba.conf: whatever is not listed is rejected. */
const accessRules = `local ${name} ${name} scram-sha-256
host ${name} ${name} 127.0.0.1/32 scram-sha-256
`

/** Kubernetes' fsGroup adds permissions for a group, with which PostgreSQL does not start. */
export const restrictFolder = async (folder: string): Promise<void> => {
  await chmod(folder, 0o700)
  const { mode } = await stat(folder)
  if (process.platform !== 'win32' && (mode & 0o077) !== 0)
    throw new PostgresUnusable(
      `${folder} is on a file system without permissions, where PostgreSQL does not run. Move DATA_DIR to another disk, or set DATABASE_URL to a database server`,
    )
}

/** In bytes. The limit of operating systems is 104 to 108. */
const maxSocketPathLength = 100

/** Whether a socket can have a path. */
const canBeSocket = (path: string): boolean =>
  process.platform !== 'win32' && Buffer.byteLength(path) <= maxSocketPathLength

/** The socket of PostgreSQL; null where it listens on a port of 127.0.0.1, because the system has no sockets or the path is too long. */
export const socketOf = (dataDir: string): string | null => {
  const path = join(postgresFolder(dataDir), `.s.PGSQL.${socketPort}`)
  return canBeSocket(path) ? path : null
}

/** The file that PostgreSQL describes itself in while it runs. */
export const pidFile = (dataDir: string): string => join(postgresFolder(dataDir), 'postmaster.pid')

/** The process and the port of a PostgreSQL that runs, or that was killed; null after it has stopped. */
export const readPidFile = async (
  dataDir: string,
): Promise<{ readonly pid: number; readonly port: number } | null> => {
  const text = await readFile(pidFile(dataDir), 'utf8').catch(ignoreMissing)
  if (text === undefined) return null
  const [pid = '', , , port = ''] = text.split('\n')
  return { pid: Number.parseInt(pid), port: Number.parseInt(port) }
}

/** How the service connects. @throws the error of the system if there is no database, or it does not run */
export const connectionOf = async (dataDir: string): Promise<ServerConnection> => {
  const password = await readFile(passwordFile(postgresFolder(dataDir)), 'utf8')
  const path = socketOf(dataDir)
  const port = path === null ? (await readPidFile(dataDir))?.port : socketPort
  if (port === undefined) throw new Error('PostgreSQL does not run')
  return {
    url: `postgres://${name}:${password}@127.0.0.1:${port}/${name}`,
    ...(path !== null && { path }),
  }
}
