import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { minLifetime, restartDelay } from '../concurrency/restart-delay.ts'
import { DiskFull, freeBytesOf } from '../data-dir/disk-space.ts'
import type { ServerConnection } from '../db/engine/connection.ts'
import { type Binaries, PostgresFailed, PostgresUnusable } from './binaries.ts'
import {
  connectionOf,
  createDatabase,
  hasDatabase,
  postgresFolder,
  restrictFolder,
  socketOf,
} from './cluster.ts'
import { createLauncher, type Launcher, lockFile } from './launch.ts'
import { endLeftovers } from './leftovers.ts'
import { followLog, type Log, type ServerLog } from './log.ts'
import { minFreeBytes, serverSettings, settingArguments } from './settings.ts'

interface PostgresOptions {
  /** Exists, and is locked by this process. */
  readonly dataDir: string
  readonly binaries: Binaries
  /** Processes of the service that will connect. */
  readonly workers: number
  readonly log: Log
  /** Settings of PostgreSQL that take precedence, for tests. */
  readonly overrides?: Readonly<Record<string, string>>
}

/** PostgreSQL as a child of this process. */
export interface OwnPostgres {
  readonly connection: ServerConnection
  /** Ends its sessions, writes a checkpoint and stops it. */
  readonly stop: () => Promise<void>
}

/**
 * Starts PostgreSQL in DATA_DIR, and again whenever it ends. Resolves when it accepts connections, which is after a recovery. It ends with
 * this process, however that ends.
 *
 * @throws PostgresUnusable, PostgresFailed, FolderUnusable, FolderInUse, DiskFull
 */
export const startPostgres = async ({
  dataDir,
  binaries,
  workers,
  log,
  overrides = {},
}: PostgresOptions): Promise<OwnPostgres> => {
  const launcher = await createLauncher(binaries)
  await endLeftovers(dataDir, launcher, log)
  if (!(await hasDatabase(dataDir))) await createDatabase(dataDir, launcher, log)
  const port = socketOf(dataDir) === null ? await freePort() : null
  const settings = { ...serverSettings({ workers, port }), ...overrides }
  const stopping = new AbortController()
  const start = (): Promise<RunningServer> =>
    startServer({ dataDir, launcher, settings, log, stopping: stopping.signal })

  /** Resolves when it has ended after `stop`. */
  const keepRunning = async (): Promise<void> => {
    let earlyExits = 0
    while (!stopping.signal.aborted) {
      const started = performance.now()
      await server.exited
      if (stopping.signal.aborted) return
      earlyExits = performance.now() - started < minLifetime ? earlyExits + 1 : 0
      log.warn(`${server.reason()}; starting it again`)
      server = await restart(earlyExits, server)
    }
    await server.exited
  }
  /** Tries until it succeeds, or until `stop`. */
  const restart = async (earlyExits: number, ended: RunningServer): Promise<RunningServer> => {
    try {
      await pause(restartDelay(earlyExits), undefined, { signal: stopping.signal })
      await endLeftovers(dataDir, launcher, log)
      return await start()
    } catch (error) {
      if (stopping.signal.aborted) return ended
      log.warn(`PostgreSQL does not start: ${error instanceof Error ? error.message : String(error)}`)
      return restart(earlyExits + 1, ended)
    }
  }

  let server = await start().catch(async (error: unknown) => {
    throw await explainStart(error, dataDir)
  })
  const running = keepRunning()
  return {
    connection: await connectionOf(dataDir),
    async stop() {
      stopping.abort()
      await running
    },
  }
}

interface RunningServer {
  readonly exited: Promise<unknown>
  /** Why it has ended, for the log. */
  reason(): string
}

interface ServerOptions {
  readonly dataDir: string
  readonly launcher: Launcher
  readonly settings: Readonly<Record<string, string>>
  readonly log: Log
  /** Ends it when aborted. */
  readonly stopping: AbortSignal
}

/** Rejects when it ends before it accepts connections. */
const startServer = async ({
  dataDir,
  launcher,
  settings,
  log,
  stopping,
}: ServerOptions): Promise<RunningServer> => {
  const folder = postgresFolder(dataDir)
  await restrictFolder(folder)
  const args = ['-D', folder, ...settingArguments(settings)]
  const [file = '', ...rest] = launcher.lockedCommand(lockFile(dataDir), 'postgres', args)
  stopping.throwIfAborted()
  const child = spawn(file, rest, {
    env: launcher.environment,
    // In a session of its own, so that Ctrl+C in a terminal reaches only the service, which needs it until its requests have ended.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  // A fast shutdown, which disconnects clients.
  const stop = (): void => void child.kill('SIGINT')
  // Even a process that fails leaves nothing behind. Without a checkpoint, the next start recovers.
  const kill = (): void => void child.kill('SIGQUIT')
  const exited = once(child, 'close').finally(() => {
    stopping.removeEventListener('abort', stop)
    process.off('exit', kill)
  })
  exited.catch(() => undefined)
  stopping.addEventListener('abort', stop)
  process.on('exit', kill)
  const output = followLog(child.stderr, log)
  await output.ready
  return { exited, reason: () => reasonOf(child, output) }
}

const reasonOf = ({ exitCode, signalCode }: ChildProcess, output: ServerLog): string => {
  const problem = output.lastProblem()
  return `PostgreSQL has ended (${signalCode ?? `exit code ${exitCode}`}${problem === null ? '' : `: ${problem}`})`
}

/** The error of a start for the operator. */
const explainStart = async (error: unknown, dataDir: string): Promise<Error> => {
  if (error instanceof PostgresUnusable) return error
  const freeBytes = await freeBytesOf(dataDir)
  if (freeBytes < minFreeBytes) return new DiskFull(dataDir, freeBytes, { cause: error })
  const reason = error instanceof Error ? error.message : String(error)
  return new PostgresFailed(`PostgreSQL does not start: ${reason}`, { cause: error })
}

/** A port of 127.0.0.1 that nothing listens on. */
const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
