import { closeSync, existsSync, fdatasyncSync, fsyncSync, openSync, readdirSync } from 'node:fs'
import { chmod, mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'

/** What the starting thread hands to this worker as workerData. */
export interface WorkerInput {
  /** Folder of PostgreSQL's files. */
  readonly directory: string
  /** Unix socket to listen on; null for a port of 127.0.0.1. */
  readonly socketPath: string | null
  /** 0 for one that the system chooses. */
  readonly port: number
}

/** Sent once, when connections are accepted; `port` is 0 for a Unix socket. */
export interface WorkerReady {
  readonly port: number
}

/** An Error says why the worker ends. */
export type WorkerMessage = WorkerReady | Error

// WAL is synced through fsync because Emscripten's fdatasync does nothing, whatever is mounted.
const startParams = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== '-F'),
  '-c',
  'fsync=on',
  '-c',
  'wal_sync_method=fsync',
  '-c',
  'timezone=UTC',
  // All of it is memory of the process from the start, and the system keeps the files in its own as well.
  '-c',
  'shared_buffers=32MB',
]

const input: unknown = workerData
if (!isWorkerInput(input))
  throw new TypeError('The embedded database was started without its folder and socket')
await serve(input)

function isWorkerInput(value: unknown): value is WorkerInput {
  if (typeof value !== 'object' || value === null) return false
  if (!('directory' in value) || !('socketPath' in value) || !('port' in value)) return false
  return (
    typeof value.directory === 'string' &&
    (value.socketPath === null || typeof value.socketPath === 'string') &&
    typeof value.port === 'number'
  )
}

async function serve({ directory, socketPath, port }: WorkerInput): Promise<void> {
  if (!existsSync(join(directory, 'PG_VERSION'))) await createCluster(directory)
  const database = await openCluster(directory)
  const server = new PGLiteSocketServer({
    db: database,
    ...(socketPath === null ? { host: '127.0.0.1', port } : { path: socketPath }),
  })
  await server.start()
  if (socketPath !== null) await chmod(socketPath, 0o600)
  parentPort?.once('message', () => stop(server, database))
  const ready: WorkerReady = { port: socketPath === null ? portOf(server) : 0 }
  parentPort?.postMessage(ready)
}

async function stop(server: PGLiteSocketServer, database: PGlite): Promise<void> {
  await server.stop()
  await database.exec('checkpoint')
  await database.close()
}

function portOf(server: PGLiteSocketServer): number {
  return Number(server.getServerConn().split(':').at(-1))
}

// Made beside its place and moved there whole: a start that is cut short leaves nothing that looks like a
// cluster.
async function createCluster(directory: string): Promise<void> {
  const unfinished = `${directory}.new`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { recursive: true, mode: 0o700 })
  const database = await openCluster(unfinished)
  await database.close()
  syncTree(unfinished)
  await rename(unfinished, directory)
  syncPath(dirname(directory), true)
}

async function openCluster(directory: string): Promise<PGlite> {
  const database = await PGlite.create({ fs: durableFileSystem(directory), startParams })
  const execute = database.execProtocolRawStream.bind(database)
  // The socket server answers nobody any more once this has rejected.
  database.execProtocolRawStream = (message, options) => execute(message, options).catch(abandon)
  return database
}

/**
 * PGlite's file system with an fsync that reaches the disk; its own has none, and PostgreSQL is told of
 * success.
 */
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

/** The parts of an Emscripten module that addSync relies on. */
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

// PostgreSQL panics when it cannot write its log, mostly because the disk is full. PGlite carries on, and would answer
// nobody any more.
function onAbort(): never {
  abandon(new Error('The embedded database can no longer write. Free up space on its disk, then start again'))
}

// After a failed sync the kernel may have dropped the data, so nothing more may be acknowledged. PostgreSQL
// would panic, but PGlite swallows that and carries on: hence the thread ends here, in the middle of the
// statement.
function abandon(error: unknown): never {
  parentPort?.postMessage(error)
  process.exit(1)
}

// Times of modification need not survive, so fdatasync is enough for a file. For a folder it is not: on some
// file systems it leaves out new names. Windows has no way to sync a folder.
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
