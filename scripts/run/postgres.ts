import { execFileSync, spawn, spawnSync, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createClient } from '../../src/db/engine/connection.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { isExecutable, pathFolders, runAttached } from './commands.ts'
import { stopProgram } from './processes.ts'
import { runToEnd, type Teardown } from './run-to-end.ts'
import { temporaryRoot } from './temporary-root.ts'

/** The user that runs the server. Empty unless this process is root, because PostgreSQL does not run as root. */
export type Identity = Pick<SpawnOptions, 'uid' | 'gid'>

interface Cluster {
  readonly folder: string
  readonly binaries: string
  readonly identity: Identity
  readonly fast: boolean
  readonly password: string
}

interface Options {
  /** Disables fsync and synchronous commits. Not for benchmarks. */
  readonly fast?: boolean
  /** The parent of the data folder. */
  readonly parent?: string
}

/**
 * Starts a new PostgreSQL server, which listens on a loopback port. A teardown stops and removes it. Resolves to its URL. Rejects if
 * PostgreSQL is not installed or does not start.
 */
export async function startPostgres(t: Teardown, options: Options = {}): Promise<string> {
  const server = await createServer(t, await prepareFolder(t, options))
  await server.start()
  return server.url
}

/** A server that can be stopped and restarted with the same address and the same data. */
export interface RestartableServer {
  readonly url: string
  readonly port: number
  start(): Promise<void>
  stop(): Promise<void>
  /** Suspends or resumes all processes of the server. Connections stay open. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
}

/** Creates a server without starting it. Its data is in a new folder in `parent`. A teardown stops and removes it. */
export async function createPostgres(t: Teardown, parent: string = tmpdir()): Promise<RestartableServer> {
  return createServer(t, await prepareFolder(t, { parent, fast: true }))
}

async function createServer(t: Teardown, cluster: Cluster): Promise<RestartableServer> {
  const port = await freePort()
  let running: ChildProcess | null = null
  const server: RestartableServer = {
    url: `postgres://postgres:${cluster.password}@127.0.0.1:${port}/postgres`,
    port,
    async start() {
      running = startServer(cluster, port)
      await untilReady(running)
    },
    async stop() {
      // SIGINT is a fast shutdown, which disconnects clients.
      if (running !== null) await stopProgram(running, 'SIGINT')
    },
    signal(signal) {
      if (running?.pid !== undefined) signalServer(running.pid, signal)
    },
  }
  await initialize(cluster)
  t.teardown(() => server.stop())
  return server
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

async function prepareFolder(t: Teardown, { parent = tmpdir(), fast = false }: Options): Promise<Cluster> {
  const binaries = findBinaries()
  const identity = findIdentity()
  const folder = await mkdtemp(join(parent, 'taskwright-postgres-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await giveTo(identity, folder)
  return { folder, binaries, identity, fast, password: randomBytes(16).toString('hex') }
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

async function initialize({ folder, binaries, identity, password }: Cluster): Promise<void> {
  const passwordFile = join(folder, 'password')
  await writeFile(passwordFile, password, { mode: 0o600 })
  await giveTo(identity, passwordFile)
  const parameters = [
    `--pgdata=${join(folder, 'data')}`,
    '--no-sync',
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--no-locale',
    '--no-instructions',
  ]
  const child = spawn(join(binaries, 'initdb'), parameters, {
    ...identity,
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await once(child, 'exit')
  if (child.exitCode !== 0) throw new Error(`initdb failed with exit code ${child.exitCode}`)
}

function startServer({ folder, binaries, identity, fast }: Cluster, port: number): ChildProcess {
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
    if (!line.includes('ready to accept connections')) return
    starting = false
    resolve()
  })
  log.once('close', () => reject(new Error(`PostgreSQL did not start:\n${lines.join('\n')}`)))
  await promise
}

/**
 * Creates a user with the privilege CREATEDB and no others, so that tests run with the privileges of the service. Resolves to its URL.
 */
export async function createOrdinaryUser(url: string): Promise<string> {
  const ordinary = new URL(url)
  ordinary.username = 'taskwright'
  const sql = createClient({ url })
  try {
    await sql.unsafe(`create role ${ordinary.username} login createdb password '${ordinary.password}'`)
  } finally {
    await sql.end()
  }
  return ordinary.href
}

if (import.meta.main)
  // A command may take as long as it needs.
  await runToEnd('postgres', 2 ** 31 - 1, async (t) => {
    const parameters = process.argv.slice(2)
    const fast = parameters[0] === '--fast'
    const rest = fast ? parameters.slice(1) : parameters
    const command = rest[0] === '--' ? rest.slice(1) : rest
    if (command.length === 0)
      throw new Error('Usage: node scripts/run/postgres.ts [--fast] [--] <command> [parameter...]')
    const url = await startPostgres(t, fast ? { fast, parent: temporaryRoot() } : {})
    process.exitCode = await runAttached(t, command, { DATABASE_URL: await createOrdinaryUser(url) })
  })
