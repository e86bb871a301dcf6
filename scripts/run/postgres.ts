import { execFileSync, spawn, spawnSync, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { createClient } from '../../src/db/engine/connection.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { isExecutable, pathFolders } from './commands.ts'
import { temporaryRoot } from './temporary-root.ts'

/** The user that runs the server. Empty unless this process is root, because PostgreSQL does not run as root. */
export type Identity = Pick<SpawnOptions, 'uid' | 'gid'>

interface Cluster {
  readonly folder: string
  readonly binaries: string
  readonly identity: Identity
  readonly password: string
}

interface Options {
  /** Disables fsync and synchronous commits. Not for benchmarks. */
  readonly fast?: boolean
  /** The parent of the data folder. */
  readonly parent?: string
}

/**
 * Runs `use` with the URL of a new PostgreSQL server, which listens on a loopback port and is removed afterwards. Rejects if
 * PostgreSQL is not installed or does not start, or if `use` rejects.
 */
export async function withPostgres<T>(
  use: (url: string) => T | Promise<T>,
  options: Options = {},
): Promise<T> {
  const { parent, fast = false } = options
  const start = async (server: RestartableServer): Promise<T> => {
    await server.start()
    return use(server.url)
  }
  return withCluster(await prepareFolder(parent), fast, initialize, start)
}

/** A server that can be stopped and restarted with the same address and the same data. */
export interface RestartableServer {
  readonly url: string
  readonly port: number
  start(): Promise<void>
  stop(): Promise<void>
  /** Suspends or resumes all processes of the server. Connections stay open. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  /** Runs `use` with a standby, whose application_name is `name`. The caller starts the primary before and the standby in `use`. */
  withStandby<T>(name: string, use: (standby: RestartableServer) => Promise<T>): Promise<T>
}

/**
 * Runs `use` with a new server, like `withPostgres`, but does not start it. Its data is in a new folder in `parent`.
 */
export async function withRestartablePostgres<T>(
  use: (server: RestartableServer) => Promise<T>,
  parent: string = tmpdir(),
): Promise<T> {
  return withCluster(await prepareFolder(parent), true, initialize, use)
}

async function withCluster<T>(
  cluster: Cluster,
  fast: boolean,
  fill: (cluster: Cluster) => Promise<void>,
  use: (server: RestartableServer) => Promise<T>,
): Promise<T> {
  const port = await freePort()
  let running: ChildProcess | null = null
  const server: RestartableServer = {
    url: `postgres://postgres:${cluster.password}@127.0.0.1:${port}/postgres`,
    port,
    async start() {
      running = startServer(cluster, port, fast)
      await untilReady(running)
    },
    async stop() {
      if (running !== null) await stop(running)
    },
    signal(signal) {
      if (running?.pid !== undefined) signalServer(running.pid, signal)
    },
    async withStandby(name, use) {
      const standby = { ...(await prepareFolder(dirname(cluster.folder))), password: cluster.password }
      return withCluster(standby, fast, (standby) => copyServer(standby, server.url, name), use)
    },
  }
  try {
    await fill(cluster)
    return await use(server)
  } finally {
    await server.stop()
    await rm(cluster.folder, { recursive: true, force: true })
  }
}

/** Sends a signal to a server and to its children, each of which has its own process group. */
export function signalServer(pid: number, signal: NodeJS.Signals): void {
  const { stdout } = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
  const children = stdout.split('\n').filter(Boolean).map(Number)
  for (const process of [pid, ...children]) signalProcess(process, signal)
}

/** Ignores processes that have already exited. */
function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

async function prepareFolder(parent: string = tmpdir()): Promise<Cluster> {
  const binaries = findBinaries()
  const identity = findIdentity()
  const folder = await mkdtemp(join(parent, 'taskwright-postgres-'))
  await giveTo(identity, folder)
  return { folder, binaries, identity, password: randomBytes(16).toString('hex') }
}

/** The folder that contains these programs of PostgreSQL. */
export function findBinaries(programs: readonly string[] = ['initdb', 'postgres']): string {
  const versions = globSync('/usr/lib/postgresql/*/bin').toSorted((a, b) =>
    b.localeCompare(a, 'en', { numeric: true }),
  )
  const folders = [...pathFolders(), ...versions]
  const found = folders.find((folder) => programs.every((name) => isExecutable(join(folder, name))))
  if (found !== undefined) return found
  throw new Error(
    'PostgreSQL not found: install the server, or add the folder of initdb and postgres to PATH',
  )
}

/** @throws Error if this process is root and there is no unprivileged user */
export function findIdentity(): Identity {
  if (process.getuid?.() !== 0) return {}
  const identity = identityOf('postgres') ?? identityOf('nobody')
  if (identity !== null) return identity
  throw new Error('PostgreSQL cannot run as root, and neither the user postgres nor the user nobody exists')
}

/** Makes a user the owner of files and folders. */
export async function giveTo({ uid, gid }: Identity, ...paths: readonly string[]): Promise<void> {
  if (uid !== undefined && gid !== undefined) await Promise.all(paths.map((path) => chown(path, uid, gid)))
}

function identityOf(user: string): Identity | null {
  const ask = (flag: string) =>
    Number(execFileSync('id', [flag, user], { stdio: ['ignore', 'pipe', 'ignore'] }))
  try {
    return { uid: ask('-u'), gid: ask('-g') }
  } catch {
    return null
  }
}

async function initialize(cluster: Cluster): Promise<void> {
  const { folder, binaries, identity, password } = cluster
  const passwordFile = join(folder, 'password')
  await writeFile(passwordFile, password, { mode: 0o600 })
  await giveTo(identity, passwordFile)
  await fillFolder(cluster, join(binaries, 'initdb'), [
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--no-locale',
    '--no-instructions',
  ])
}

/** Creates the data folder of a standby. */
function copyServer(cluster: Cluster, url: string, name: string): Promise<void> {
  return fillFolder(cluster, join(findBinaries(['pg_basebackup']), 'pg_basebackup'), [
    `--dbname=${url}?application_name=${name}`,
    '--write-recovery-conf',
    '--checkpoint=fast',
  ])
}

/** Runs a program that creates the data folder of a server. */
async function fillFolder(
  { folder, identity }: Cluster,
  program: string,
  parameters: readonly string[],
): Promise<void> {
  const child = spawn(program, [`--pgdata=${join(folder, 'data')}`, '--no-sync', ...parameters], {
    ...identity,
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const code = await exitCode(child)
  if (code !== 0) throw new Error(`${program} failed with exit code ${code}`)
}

function startServer({ folder, binaries, identity }: Cluster, port: number, fast: boolean): ChildProcess {
  const fastSettings = fast ? ['--fsync=off', '--full_page_writes=off', '--synchronous_commit=off'] : []
  return spawn(
    join(binaries, 'postgres'),
    [
      '-D',
      join(folder, 'data'),
      '--listen_addresses=127.0.0.1',
      `--port=${port}`,
      '--unix_socket_directories=',
      '--max_connections=200',
      ...fastSettings,
    ],
    { ...identity, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] },
  )
}

// Reads the log to its end, because a full pipe would block the server.
async function untilReady({ stderr }: ChildProcess): Promise<void> {
  if (stderr === null) throw new Error('The log of PostgreSQL cannot be read')
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const lines: string[] = []
  let starting = true
  const log = createInterface({ input: stderr })
  log.on('line', (line) => {
    if (!starting) return
    lines.push(line)
    if (!/ready to accept (read-only )?connections/.test(line)) return
    starting = false
    resolve()
  })
  log.once('close', () => reject(new Error(`PostgreSQL did not start:\n${lines.join('\n')}`)))
  await promise
}

// SIGINT is a fast shutdown, which disconnects clients.
async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const exited = once(server, 'exit')
  server.kill('SIGINT')
  await exited
}

/** 128 if a signal ended the process. Rejects if the program cannot be started. */
async function exitCode(child: ChildProcess): Promise<number> {
  await once(child, 'exit')
  return child.exitCode ?? 128
}

/**
 * Creates a user with the privilege CREATEDB and no others, so that tests run with the privileges of the service. Resolves to its URL.
 */
export async function createOrdinaryUser(url: string): Promise<string> {
  const ordinary = new URL(url)
  ordinary.username = 'taskwright'
  const sql = createClient({ kind: 'server', url })
  try {
    await sql.unsafe(`create role ${ordinary.username} login createdb password '${ordinary.password}'`)
  } finally {
    await sql.end()
  }
  return ordinary.href
}

async function runCommand(command: string, parameters: readonly string[], url: string): Promise<number> {
  const child = spawn(command, parameters, { stdio: 'inherit', env: { ...process.env, DATABASE_URL: url } })
  const forward = (signal: NodeJS.Signals) => child.kill(signal)
  process.on('SIGINT', forward).on('SIGTERM', forward)
  return exitCode(child)
}

// Without listeners, a signal would end this process before the server is stopped and removed.
function recordSignals(): { readonly interrupted: boolean } {
  const state = { interrupted: false }
  const record = () => {
    state.interrupted = true
  }
  process.on('SIGINT', record).on('SIGTERM', record)
  return state
}

async function main(parameters: readonly string[]): Promise<number> {
  const fast = parameters[0] === '--fast'
  const rest = fast ? parameters.slice(1) : parameters
  const [command, ...commandParameters] = rest[0] === '--' ? rest.slice(1) : rest
  if (command === undefined) {
    console.error('Usage: node scripts/run/postgres.ts [--fast] [--] <command> [parameter...]')
    return 2
  }
  const signals = recordSignals()
  const use = async (url: string) =>
    signals.interrupted ? 128 : runCommand(command, commandParameters, await createOrdinaryUser(url))
  return withPostgres(use, fast ? { fast, parent: temporaryRoot() } : {})
}

if (import.meta.main) {
  process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error)
    return 1
  })
}
