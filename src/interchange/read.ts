import { type ChildProcess, fork } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Inspection, type ReadBatch, type ReadOptions, UnreadableFile } from './import-file.ts'
import type { ReadAnswer, ReadRequest, ReadWork } from './read-protocol.ts'

/**
 * Reads files of other products in a process of its own, whose memory and time are limited. Whatever a file does to it is an
 * `UnreadableFile` here. It is not a thread: V8 ends the whole service when one array outgrows the limits of a thread.
 */

export interface ReadLimits {
  /** Milliseconds until an answer: a batch, or what the file is. */
  readonly deadline: number
  /** MiB of the heap. */
  readonly memory: number
}

const script = fileURLToPath(new URL('read-process.ts', import.meta.url))

const defaultLimits: ReadLimits = { deadline: 60_000, memory: 768 }

/** What a file is, and how it would be read. @throws UnreadableFile */
export const inspectFile = async (
  path: string,
  signal: AbortSignal,
  limits: ReadLimits = defaultLimits,
): Promise<Inspection> => {
  for await (const answer of answersOf({ path, options: null }, signal, limits))
    if (answer.kind === 'inspection') return answer.inspection
  return { format: null, csv: null }
}

/**
 * The records of a file, each after those that it names, and the lines of the report. The file is read as the batches are taken: the
 * process makes one more meanwhile.
 *
 * @throws UnreadableFile
 */
export async function* readImport(
  path: string,
  options: ReadOptions,
  signal: AbortSignal,
  limits: ReadLimits = defaultLimits,
): AsyncGenerator<ReadBatch, void> {
  for await (const answer of answersOf({ path, options }, signal, limits))
    if (answer.kind === 'batch') yield answer.batch
}

async function* answersOf(
  work: ReadWork,
  signal: AbortSignal,
  { deadline, memory }: ReadLimits,
): AsyncGenerator<ReadAnswer, void> {
  signal.throwIfAborted()
  const child = fork(script, {
    env: compileCache(),
    execArgv: [`--max-old-space-size=${memory}`],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  const next = (): Promise<ReadAnswer> => ask(child, { work }, signal, deadline)
  try {
    let asked = next()
    for (;;) {
      const answer = await asked
      if (answer.kind === 'end') return
      if (answer.kind === 'unreadable') throw new UnreadableFile(answer.why, answer.message)
      asked = next()
      // It may fail before it is awaited.
      asked.catch(() => undefined)
      yield answer
    }
  } finally {
    child.kill('SIGKILL')
  }
}

/** Shares the service's compile cache; see images/decoder.ts. Nothing else of the service's environment is passed on. */
const compileCache = (): { readonly NODE_COMPILE_CACHE?: string } => {
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}

/** Requests the next answer. */
const ask = (
  child: ChildProcess,
  request: ReadRequest,
  signal: AbortSignal,
  deadline: number,
): Promise<ReadAnswer> => {
  const { promise, resolve, reject } = Promise.withResolvers<ReadAnswer>()
  const onMessage = (message: unknown): void => resolve(message as ReadAnswer)
  const onError = (cause: Error): void =>
    reject(new UnreadableFile('damaged', 'The file cannot be read.', { cause }))
  // V8 aborts a process without memory.
  const onExit = (_code: number | null, ended: NodeJS.Signals | null): void =>
    reject(
      ended === null
        ? new UnreadableFile('damaged', 'Reading the file has ended early.')
        : new UnreadableFile('exhausted', 'Reading the file takes too much memory.'),
    )
  const onAbort = (): void => reject(signal.reason as Error)
  const timer = setTimeout(
    () => reject(new UnreadableFile('exhausted', 'Reading the file takes too long.')),
    deadline,
  )
  child.once('message', onMessage).once('error', onError).once('exit', onExit)
  signal.addEventListener('abort', onAbort, { once: true })
  child.send(request, (error) => error !== null && onError(error))
  return promise.finally(() => {
    clearTimeout(timer)
    child.off('message', onMessage).off('error', onError).off('exit', onExit)
    signal.removeEventListener('abort', onAbort)
  })
}
