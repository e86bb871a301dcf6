import { type ChildProcess, fork } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { getCompileCacheDir } from 'node:module'
import { setPriority } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type Inspection,
  type KnownForm,
  type ReadBatch,
  type ReadOptions,
  UnreadableFile,
} from './import-file.ts'
import type { ReadAnswer, ReadRequest } from './read-protocol.ts'

/**
 * Reads files of other products in a process of its own, whose memory and time are limited. Whatever a file does to it is an
 * `UnreadableFile` here; what the machine does to it is another error, after which the file can be read again. It is not a thread: V8 ends the whole service when one array outgrows the limits of a thread.
 */

export interface ReadLimits {
  /** Milliseconds until an answer: a batch, or what the file is. */
  readonly deadline: number
  /** Milliseconds for all answers together. */
  readonly total: number
  /** MiB of V8's heap. */
  readonly heap: number
  /** MiB of resident memory, which also has the buffers outside of the heap. */
  readonly resident: number
}

const script = fileURLToPath(new URL('read-process.ts', import.meta.url))

/** The total keeps a file whose every batch is slow from holding up the jobs of others. */
const defaultLimits: ReadLimits = { deadline: 60_000, total: 300_000, heap: 768, resident: 1024 }

/** Milliseconds between two looks at resident memory. */
const lookInterval = 100

/** Below the service, which answers requests meanwhile. */
const niceness = 10

/** A file in a process that reads it. */
export interface FileReader {
  /** What the file is, and how it would be read. @throws UnreadableFile */
  readonly inspect: (known: KnownForm) => Promise<Inspection>
  /**
   * The records of the file, each after those that it names, and the lines of the report, read once. The file is read as the batches
   * are taken: the process makes one more meanwhile.
   *
   * @throws UnreadableFile
   */
  readonly read: (options: ReadOptions) => AsyncGenerator<ReadBatch, void>
  /** Ends the process. */
  readonly close: () => void
}

/** Starts a process that reads a file. Whoever opens it closes it. */
export const openFileReader = (
  path: string,
  signal: AbortSignal,
  { deadline, total, heap, resident }: ReadLimits = defaultLimits,
): FileReader => {
  signal.throwIfAborted()
  const child = fork(script, {
    env: compileCache(),
    execArgv: [`--max-old-space-size=${heap}`],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  // Each request reports it as well.
  child.on('error', () => undefined)
  lowerPriority(child)
  limitMemory(child, resident)
  let left = total
  const send = async (request: ReadRequest): Promise<ReadAnswer> => {
    const started = performance.now()
    const answer = await ask(child, request, signal, Math.min(deadline, left))
    left -= performance.now() - started
    if (answer.kind === 'unreadable') throw new UnreadableFile(answer.why, answer.message)
    return answer
  }
  return {
    async inspect(known) {
      const answer = await send({ path, kind: 'inspect', known })
      if (answer.kind !== 'inspection') throw new Error(`An inspection was answered with: ${answer.kind}`)
      return answer.inspection
    },
    async *read(options) {
      const request = () => send({ path, kind: 'read', options })
      for (let asked = request(); ;) {
        const answer = await asked
        if (answer.kind !== 'batch') return
        asked = request()
        // It may fail before it is awaited.
        asked.catch(() => undefined)
        yield answer.batch
      }
    },
    close: () => void child.kill('SIGKILL'),
  }
}

/** Before the process starts threads, which inherit it. */
const lowerPriority = ({ pid }: ChildProcess): void => {
  if (pid === undefined) return
  try {
    setPriority(pid, niceness)
  } catch {
    // The system may not allow it, as the unit for systemd does not.
  }
}

/** Ends a process with more resident memory, where the system shows it. */
const limitMemory = (child: ChildProcess, limit: number): void => {
  if (process.platform !== 'linux') return
  const look = async (): Promise<void> => {
    const status = await readFile(`/proc/${child.pid}/status`, 'latin1')
    const [, kib = 0] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? []
    if (Number(kib) > limit * 1024) child.kill('SIGKILL')
  }
  // It cannot be read once the process has ended.
  const timer = setInterval(() => void look().catch(() => undefined), lookInterval)
  child.once('exit', () => clearInterval(timer)).once('error', () => clearInterval(timer))
}

/** Shares the service's compile cache; see images/decoder.ts. Nothing else of the service's environment is passed on. */
const compileCache = (): { readonly NODE_COMPILE_CACHE?: string } => {
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}

/** Requests the next answer. */
const ask = async (
  child: ChildProcess,
  request: ReadRequest,
  signal: AbortSignal,
  deadline: number,
): Promise<ReadAnswer> => {
  const { promise, resolve, reject } = Promise.withResolvers<ReadAnswer>()
  const onMessage = (message: unknown): void => resolve(message as ReadAnswer)
  const onError = (cause: Error): void =>
    reject(new Error('The process that reads a file has failed', { cause }))
  const onExit = (_code: number | null, ended: NodeJS.Signals | null): void => {
    if (ended === null) reject(new UnreadableFile('damaged', 'Reading the file has ended early.'))
    else if (interruptions.has(ended))
      reject(new Error(`The process that reads a file was ended by ${ended}`))
    // V8 aborts a process without memory, and the system kills it.
    else reject(new UnreadableFile('exhausted', 'Reading the file takes too much memory.'))
  }
  const onAbort = (): void => reject(signal.reason as Error)
  const timer = setTimeout(
    () => reject(new UnreadableFile('exhausted', 'Reading the file takes too long.')),
    deadline,
  )
  child.once('message', onMessage).once('error', onError).once('exit', onExit)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    // Throws if the process could not be started.
    child.send(request, (error) => error !== null && onError(error))
    return await promise
  } finally {
    clearTimeout(timer)
    child.off('message', onMessage).off('error', onError).off('exit', onExit)
    signal.removeEventListener('abort', onAbort)
  }
}

/** Signals that end a service and its processes. */
const interruptions: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGTERM', 'SIGHUP'])
