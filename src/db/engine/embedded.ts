import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import { Worker } from 'node:worker_threads'
import { clusterFolder, hasCluster } from './cluster-folder.ts'
import type { EmbeddedConnection } from './connection.ts'
import { DiskFull, freeBytesOf, minFreeBytes } from './disk-space.ts'
import { lockFolder } from './folder-lock.ts'
import { hasCode } from './system-errors.ts'
import type { WorkerInput, WorkerMessage, WorkerReady, WorkerRequest } from './embedded-worker.ts'

export interface EmbeddedOptions {
  /** Absolute path, created if missing. PostgreSQL's files are in its subfolder `postgres`. */
  readonly dataDir: string
  readonly log: { info(message: string): void; warn(message: string): void }
  /** Called at most once, when the database fails after startup and cannot be restarted. The process should exit. */
  readonly onFailure: (error: Error) => void
  /** False for a disposable database: it is not synced to the disk, and a power failure can corrupt it. */
  readonly isDurable?: boolean
}

export interface EmbeddedDatabase {
  readonly connection: EmbeddedConnection
  /**
   * Pauses PostgreSQL between two statements, for 5 seconds at most, so that its files can be copied. Resolves to a function that
   * resumes it, and tells whether it was paused until then.
   */
  pause(): Promise<() => boolean>
  /** Closes connections, writes a checkpoint, stops PostgreSQL and unlocks dataDir. */
  close(): Promise<void>
}

// In milliseconds.
const closeDeadline = 20_000
const restartPause = 500
const pauseTimeout = 30_000

const maxRestartAttempts = 3

/** ENOSPC in Emscripten's C library. */
const emscriptenNoSpace = 51

// In bytes. The limit of operating systems is 104 to 108.
const maxSocketPathLength = 100

/**
 * Starts PostgreSQL in a worker thread of this process. It accepts one connection at a time. Rejects if another process
 * uses dataDir (after waiting long enough for the lock of a killed process to expire), or if PostgreSQL does not start.
 */
export async function startEmbedded({
  dataDir,
  log,
  onFailure,
  isDurable = true,
}: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const failure = failOnce(onFailure)
  const directory = clusterFolder(dataDir)
  // Before anything is created.
  await hasCluster(directory)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const release = await lockFolder(dataDir, log, failure.report)
  const socket = await prepareSocket(dataDir)
  const cleanUp = async () => {
    await socket?.remove()
    await release()
  }
  const socketPath = socket?.path ?? null
  try {
    let thread = await startThread({ directory, socketPath, port: 0, isDurable }, log, failure.report)
    const { port } = thread
    let restarting: Promise<void> = Promise.resolve()
    const closing = new AbortController()

    const startWithRetries = async (attempt = 1): Promise<void> => {
      if (closing.signal.aborted) return
      try {
        if (socketPath !== null) await rm(socketPath, { force: true })
        thread = await startThread({ directory, socketPath, port, isDurable }, log, failure.report)
        log.info('The embedded database has been restarted')
      } catch (error) {
        if (attempt === maxRestartAttempts) return failure.report(await explainStart(error, dataDir))
        await pause(restartPause)
        await startWithRetries(attempt + 1)
      }
    }

    const restartNow = async (): Promise<void> => {
      if (closing.signal.aborted) return
      log.warn(
        'The embedded database did not respond in time; restarting it (it recovers from its write-ahead log)',
      )
      await thread.terminate()
      await startWithRetries()
    }

    const restart = (): Promise<void> => (restarting = restarting.then(restartNow))
    return {
      connection: socket
        ? { kind: 'embedded', path: socket.path, restart }
        : { kind: 'embedded', host: '127.0.0.1', port, restart },
      pause: () => thread.pause(),
      close: async () => {
        failure.disarm()
        closing.abort()
        await restarting
        await thread.stop().finally(cleanUp)
      },
    }
  } catch (error) {
    await cleanUp()
    throw await explainStart(error, dataDir)
  }
}

/** PGlite throws objects that are not Errors, and does not report a full disk. */
async function explainStart(cause: unknown, dataDir: string): Promise<Error> {
  const freeBytes = await freeBytesOf(dataDir)
  const isFull =
    hasCode(cause, 'ENOSPC') ||
    (typeof cause === 'object' && cause !== null && 'errno' in cause && cause.errno === emscriptenNoSpace)
  if (isFull || freeBytes < minFreeBytes) return new DiskFull(dataDir, freeBytes, { cause })
  return cause instanceof Error
    ? cause
    : new Error(`The embedded database cannot start: ${inspect(cause)}`, { cause })
}

interface Failure {
  readonly report: (error: Error) => void
  readonly disarm: () => void
}

function failOnce(onFailure: (error: Error) => void): Failure {
  let armed = true
  const disarm = () => {
    armed = false
  }
  const report = (error: Error) => {
    if (!armed) return
    disarm()
    onFailure(error)
  }
  return { report, disarm }
}

interface Socket {
  readonly path: string
  remove(): Promise<void>
}

export const canBeSocket = (path: string): boolean =>
  process.platform !== 'win32' && Buffer.byteLength(path) <= maxSocketPathLength

// This process holds the lock, so an existing socket file was left by a crash.
async function prepareSocket(dataDir: string): Promise<Socket | null> {
  if (process.platform === 'win32') return null
  const path = join(dataDir, 'postgres.sock')
  if (!canBeSocket(path)) return prepareTemporarySocket()
  await rm(path, { force: true })
  return { path, remove: () => rm(path, { force: true }) }
}

async function prepareTemporarySocket(): Promise<Socket> {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-'))
  return { path: join(folder, 'postgres.sock'), remove: () => rm(folder, { recursive: true, force: true }) }
}

/** A running PostgreSQL. */
interface Thread {
  readonly port: number
  readonly pause: EmbeddedDatabase['pause']
  /** Stops it immediately, as if the process had been killed. */
  terminate(): Promise<void>
  /** Writes a checkpoint and stops it. */
  stop(): Promise<void>
}

/** Calls `report` if PostgreSQL ends unexpectedly. */
async function startThread(
  input: WorkerInput,
  log: EmbeddedOptions['log'],
  report: (error: Error) => void,
): Promise<Thread> {
  const worker = new Worker(new URL('embedded-worker.ts', import.meta.url), {
    workerData: input,
    stdout: true,
    stderr: true,
  })
  for (const output of [worker.stdout, worker.stderr])
    createInterface({ input: output }).on('line', (line) => log.warn(`embedded database: ${line}`))
  try {
    const { port } = await firstMessage(worker)
    const unwatch = watch(worker, report)
    let state = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    return {
      port,
      async pause() {
        const paused = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
        state = paused
        // A thread that is restarted meanwhile does not answer.
        const answer = once(worker, 'message', { signal: AbortSignal.timeout(pauseTimeout) })
        worker.postMessage(paused satisfies WorkerRequest)
        await answer
        return () => {
          const wasPaused = Atomics.compareExchange(paused, 0, 0, 1) === 0
          Atomics.notify(paused, 0)
          return wasPaused
        }
      },
      async terminate() {
        Atomics.store(state, 0, 2)
        unwatch()
        await worker.terminate()
      },
      async stop() {
        unwatch()
        await stopWorker(worker, log)
      },
    }
  } catch (error) {
    await worker.terminate()
    throw error
  }
}

function firstMessage(worker: Worker): Promise<WorkerReady> {
  const { promise, resolve, reject } = Promise.withResolvers<WorkerReady>()
  const onMessage = (message: WorkerMessage) =>
    typeof message === 'object' && 'port' in message ? resolve(message) : reject(message)
  const onExit = () => reject(new Error('The embedded database stopped during startup'))
  worker.once('message', onMessage).once('error', reject).once('exit', onExit)
  return promise.finally(() => worker.off('message', onMessage).off('error', reject).off('exit', onExit))
}

/** Returns a function that stops reporting. The listeners stay: an `error` event without a listener ends the process. */
function watch(worker: Worker, report: (error: Error) => void): () => void {
  let isWatched = true
  const reportWatched = (error: Error) => isWatched && report(error)
  worker.on('message', (message: WorkerMessage) => message instanceof Error && reportWatched(message))
  worker.on('error', (error) => reportWatched(error instanceof Error ? error : new Error(inspect(error))))
  worker.on('exit', () => reportWatched(new Error('The embedded database stopped unexpectedly')))
  return () => {
    isWatched = false
  }
}

async function stopWorker(worker: Worker, log: EmbeddedOptions['log']): Promise<void> {
  if (worker.threadId === -1) return
  const exited = once(worker, 'exit')
  const deadline = setTimeout(() => {
    log.warn(
      'The embedded database did not stop in time and was terminated; it will recover at the next start',
    )
    void worker.terminate()
  }, closeDeadline)
  worker.postMessage('close' satisfies WorkerRequest)
  await exited.finally(() => clearTimeout(deadline))
}
