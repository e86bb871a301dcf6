import { closeSync, fdatasyncSync, fsyncSync, openSync, readdirSync } from 'node:fs'
import { chmod, mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'
import { hasCluster } from './cluster-folder.ts'

/** The worker's `workerData`. */
export interface WorkerInput {
  /** PostgreSQL's data directory. */
  readonly directory: string
  /** Unix socket to listen on; null listens on a port of 127.0.0.1. */
  readonly socketPath: string | null
  /** 0: the system chooses a free port. */
  readonly port: number
  /** Whether commits are synced to the disk. */
  readonly isDurable: boolean
}

/** Sent once, when the worker accepts connections. `port` is 0 for a Unix socket. */
export interface WorkerReady {
  readonly port: number
}

/** An Error is the reason why the worker exits. */
export type WorkerMessage = WorkerReady | 'paused' | Error

/** What the worker is asked for: to stop, or to pause until the state is not 0. */
export type WorkerRequest = 'close' | Int32Array

/** Milliseconds. Statements wait meanwhile, for up to 10 seconds. */
const maxPause = 5_000

// WAL is synced with fsync because Emscripten's fdatasync is a no-op on every file system.
const startParams = (isDurable: boolean): string[] => [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== '-F'),
  '-c',
  `fsync=${isDurable ? 'on' : 'off'}`,
  '-c',
  'wal_sync_method=fsync',
  '-c',
  'timezone=UTC',
  // Allocated completely at startup; the operating system caches the files as well.
  '-c',
  'shared_buffers=32MB',
]

/** Types of the messages of a statement before the one that asks for its results: Bind, Close, Describe, Execute, Parse. */
const unansweredTypes: ReadonlySet<number | undefined> = new Set(Buffer.from('BCDEP'))

/** The first byte of a startup message, which has no type. */
const startup = 0

const input: unknown = workerData
if (!isWorkerInput(input))
  throw new TypeError('The embedded database was started without its folder and socket')
await serve(input)

function isWorkerInput(value: unknown): value is WorkerInput {
  if (typeof value !== 'object' || value === null) return false
  if (!('directory' in value) || !('socketPath' in value) || !('port' in value) || !('isDurable' in value))
    return false
  return (
    typeof value.directory === 'string' &&
    (value.socketPath === null || typeof value.socketPath === 'string') &&
    typeof value.port === 'number' &&
    typeof value.isDurable === 'boolean'
  )
}

async function serve({ directory, socketPath, port, isDurable }: WorkerInput): Promise<void> {
  if (!(await hasCluster(directory))) await createCluster(directory)
  const database = await openCluster(directory, isDurable)
  const server = new PGLiteSocketServer({
    db: database,
    ...(socketPath === null ? { host: '127.0.0.1', port } : { path: socketPath }),
  })
  await server.start()
  if (socketPath !== null) await chmod(socketPath, 0o600)
  parentPort?.on('message', (message: WorkerRequest) =>
    message === 'close' ? void stop(server, database) : pause(message),
  )
  const ready: WorkerReady = { port: socketPath === null ? portOf(server) : 0 }
  parentPort?.postMessage(ready)
}

/**
 * Stops this thread, and with it PostgreSQL, until another one changes the state from 0, for `maxPause` at most. It is between two
 * statements, and PostgreSQL has passed everything that it has written to the operating system.
 */
function pause(state: Int32Array): void {
  parentPort?.postMessage('paused' satisfies WorkerMessage)
  if (Atomics.wait(state, 0, 0, maxPause) === 'timed-out') Atomics.compareExchange(state, 0, 0, 2)
}

async function stop(server: PGLiteSocketServer, database: PGlite): Promise<void> {
  await server.stop()
  await database.exec('checkpoint')
  await database.close()
  parentPort?.close()
}

function portOf(server: PGLiteSocketServer): number {
  return Number(server.getServerConn().split(':').at(-1))
}

// Created next to its final path and renamed when complete, so that an interrupted start leaves no partial
// cluster.
async function createCluster(directory: string): Promise<void> {
  const unfinished = `${directory}.new`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { recursive: true, mode: 0o700 })
  const database = await openCluster(unfinished, true)
  await database.close()
  syncTree(unfinished)
  await rename(unfinished, directory)
  syncPath(dirname(directory), true)
}

async function openCluster(directory: string, isDurable: boolean): Promise<PGlite> {
  const database = await PGlite.create({
    fs: durableFileSystem(directory),
    startParams: startParams(isDurable),
  })
  const execute = inBatches(database.execProtocolRawStream.bind(database))
  // Once this rejects, the socket server stops responding.
  database.execProtocolRawStream = (message, options) => execute(message, options).catch(abandon)
  return database
}

type Execute = PGlite['execProtocolRawStream']

/**
 * Executes the messages of a statement together. The socket server (0.2) passes them on one by one, and each answer would be
 * a write of its own. There is one connection at a time, so the messages of two statements do not mix.
 */
function inBatches(execute: Execute): Execute {
  let waiting: Uint8Array[] = []
  return async (message, options) => {
    // The last connection ended in the middle of a statement.
    if (message[0] === startup) waiting = []
    waiting.push(message)
    if (unansweredTypes.has(message[0])) return
    const batch = Buffer.concat(waiting)
    waiting = []
    await execute(batch, options)
  }
}

/** PGlite's file system with a working fsync. PGlite's own has none and reports success to PostgreSQL. */
function durableFileSystem(directory: string): NodeFS {
  const fileSystem = new NodeFS(directory)
  const init = fileSystem.init.bind(fileSystem)
  fileSystem.init = async (pglite, options) => {
    const { emscriptenOpts } = await init(pglite, options)
    const preRun = [...(emscriptenOpts.preRun ?? []), addSync]
    return { emscriptenOpts: { ...emscriptenOpts, preRun, onAbort } }
  }
  return fileSystem
}

/** The parts of an Emscripten module that addSync uses. */
interface FileSystemModule {
  readonly FS: {
    isDir(mode: number): boolean
    readonly filesystems: {
      readonly NODEFS: { readonly stream_ops: { fsync?: (stream: OpenFile) => number } }
    }
  }
}

interface OpenFile {
  readonly nfd: number
  readonly node: { readonly mode: number }
}

function addSync({ FS }: FileSystemModule): void {
  FS.filesystems.NODEFS.stream_ops.fsync = ({ nfd, node }) => {
    try {
      syncDescriptor(nfd, FS.isDir(node.mode))
    } catch (error) {
      abandon(error)
    }
    return 0
  }
}

// PostgreSQL panics when it cannot write its WAL, mostly because the disk is full. PGlite keeps running without
// responding.
function onAbort(): never {
  abandon(new Error('The embedded database can no longer write. Free up space on its disk, then start again'))
}

// After a failed sync the kernel may have dropped the data, so no later write may be acknowledged. PostgreSQL
// panics, but PGlite swallows the panic and keeps running: the thread therefore exits here, in the middle of
// the statement.
function abandon(error: unknown): never {
  parentPort?.postMessage(error)
  process.exit(1)
}

// Modification times need not be durable, so fdatasync is enough for a file. It is not for a folder: on some
// file systems it does not persist new entries. Windows cannot sync a folder.
function syncDescriptor(descriptor: number, isFolder: boolean): void {
  if (!isFolder) fdatasyncSync(descriptor)
  else if (process.platform !== 'win32') fsyncSync(descriptor)
}

function syncTree(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) syncTree(path)
    else syncPath(path, false)
  }
  syncPath(folder, true)
}

function syncPath(path: string, isFolder: boolean): void {
  const descriptor = openSync(path, isFolder ? 'r' : 'r+')
  try {
    syncDescriptor(descriptor, isFolder)
  } finally {
    closeSync(descriptor)
  }
}
