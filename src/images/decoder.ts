import { type ChildProcess, fork } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { Socket } from 'node:net'
import { dirname } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { withTimeout } from '../concurrency/deadline.ts'
import { StorageUnavailable } from '../storage/storage.ts'
import { DecoderCrashed, DecoderUnavailable, ImageTooLarge, UnsupportedImage } from './errors.ts'
import { type DecoderMessage, type DecodeRequest, parseDecoderMessage } from './protocol.ts'

/**
 * Decodes images in a child process (decoder-process.ts), which is killed when an image exceeds its limits of time or
 * memory. The process is started on demand and ends when idle.
 */
export interface Decoder {
  /**
   * Makes a thumbnail of the file that `open` opens. Callers must wait for one image before they pass the next.
   *
   * @throws UnsupportedImage, ImageTooLarge
   * @throws DecoderCrashed, DecoderUnavailable
   * @throws StorageUnavailable when reading the file fails, and the errors of `open`
   */
  decode(request: DecodeRequest, open: () => Promise<Readable>): Promise<Buffer>
  /** The process id; null if no process runs. */
  readonly pid: number | null
  close(): void
}

/** Milliseconds. */
export interface DecoderTimes {
  /** From the last byte of an image to its thumbnail. */
  readonly decode: number
  /** Until an idle decoder is stopped. */
  readonly idle: number
}

/** The process limits its own CPU time; this timeout is the fallback. */
const defaultTimes: DecoderTimes = { decode: 15_000, idle: 60_000 }

/** Milliseconds until a new process accepts an image; usually 200. */
const startTimeout = 15_000

const script = fileURLToPath(new URL('decoder-process.ts', import.meta.url))

/** Bytes. A decoder that keeps more after an image is replaced, since less would be left for the next one. It starts with 70 MiB. */
const maxIdleMemory = 96 * 1024 * 1024

/** The heap holds metadata only; images are outside it. */
const heapLimit = '--max-old-space-size=64'

export const createDecoder = (times: DecoderTimes = defaultTimes): Decoder => {
  let current: DecoderProcess | null = null
  let idleTimer: NodeJS.Timeout | undefined
  let isClosed = false

  const end = (decoder: DecoderProcess): void => {
    decoder.kill()
    if (current === decoder) current = null
  }

  return {
    get pid() {
      return current?.hasEnded === false ? (current.pid ?? null) : null
    },

    async decode(request, open) {
      if (isClosed) throw new DecoderUnavailable('The decoder is closed')
      clearTimeout(idleTimer)
      if (current?.hasEnded !== false) current = startProcess()
      const decoder = current
      let isReusable = false
      try {
        const message = await exchange(decoder, request, times.decode, open)
        isReusable = 'memory' in message && message.memory <= maxIdleMemory
        return imageOf(message)
      } finally {
        if (isReusable) idleTimer = setTimeout(() => end(decoder), times.idle).unref()
        else end(decoder)
      }
    },

    close() {
      isClosed = true
      clearTimeout(idleTimer)
      if (current !== null) end(current)
    },
  }
}

const exchange = async (
  decoder: DecoderProcess,
  request: DecodeRequest,
  timeout: number,
  open: () => Promise<Readable>,
): Promise<DecoderMessage> => {
  await withTimeout(startTimeout, decoder.ready, () => new DecoderUnavailable('The decoder does not start'))
  const content = await open()
  const answered = decoder.next()
  // The process may end before the last byte is sent; the rejection is not awaited yet.
  answered.catch(() => undefined)
  decoder.request(request)
  await Promise.race([answered, sendContent(decoder, content, request.size)])
  const late = (): Error => new ImageTooLarge('Decoding the image takes too long.')
  return withTimeout(timeout, answered, late)
}

const sendContent = async (decoder: DecoderProcess, content: Readable, size: number): Promise<void> => {
  let sent = 0
  try {
    for await (const chunk of content as AsyncIterable<Buffer>) {
      sent += chunk.length
      if (sent <= size) await decoder.write(chunk)
    }
  } catch (cause) {
    throw cause instanceof DecoderCrashed ? cause : new StorageUnavailable({ cause })
  }
  if (sent !== size)
    throw new StorageUnavailable({ cause: new Error(`The file has ${sent} bytes instead of ${size}`) })
}

const imageOf = (message: DecoderMessage): Buffer => {
  switch (message.kind) {
    case 'thumbnail':
      return Buffer.from(message.image)
    case 'too-large':
    case 'exhausted':
      throw new ImageTooLarge(message.reason)
    case 'unsupported':
      throw new UnsupportedImage({ cause: new Error(message.reason) })
    case 'ready':
      throw new DecoderCrashed('The decoder has started again')
  }
}

interface DecoderProcess {
  readonly pid: number | undefined
  readonly hasEnded: boolean
  readonly ready: Promise<void>
  request(request: DecodeRequest): void
  write(chunk: Buffer): Promise<void>
  /** The next message; rejects if the process ends first. */
  next(): Promise<DecoderMessage>
  kill(): void
}

const startProcess = (): DecoderProcess => {
  const child: ChildProcess = fork(script, {
    // Without the service's secrets. glibc: one arena, and large blocks returned at once, so that freed memory does not
    // count against the next image (mallopt(3)).
    env: { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '65536', ...compileCache() },
    execArgv: [heapLimit],
    serialization: 'advanced',
    stdio: ['pipe', 'ignore', 'ignore', 'ipc'],
  })
  const { stdin } = child
  if (stdin === null) throw new DecoderUnavailable('The decoder has no standard input')
  const ready = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<never>()
  let isReady = false
  let hasEnded = false
  let waiting: ((message: DecoderMessage) => void) | null = null

  const onEnd = (how: string): void => {
    hasEnded = true
    ready.reject(new DecoderUnavailable(`The decoder did not start: ${how}`))
    ended.reject(new DecoderCrashed(`The decoder has ended: ${how}`))
  }
  // Between two images, they are not awaited.
  ready.promise.catch(() => undefined)
  ended.promise.catch(() => undefined)
  child.once('error', ({ message }) => onEnd(message))
  child.once('exit', (code, signal) => onEnd(signal ?? `exit code ${code}`))
  // The exit event reports the failure.
  stdin.on('error', () => undefined)
  child.on('message', (received) => {
    const message = parseDecoderMessage(received)
    if (message === null) return
    if (!isReady && message.kind === 'ready') {
      isReady = true
      ready.resolve()
    } else {
      waiting?.(message)
    }
  })
  // An idle decoder must not keep the service running.
  child.unref()
  child.channel?.unref()
  if (stdin instanceof Socket) stdin.unref()

  return {
    pid: child.pid,
    get hasEnded() {
      return hasEnded
    },
    ready: ready.promise,
    request: (request) => void child.send(request, () => undefined),
    async write(chunk) {
      if (stdin.write(chunk)) return
      const drained = Promise.withResolvers<void>()
      stdin.once('drain', drained.resolve)
      await Promise.race([drained.promise, ended.promise])
    },
    async next() {
      const answered = Promise.withResolvers<DecoderMessage>()
      waiting = answered.resolve
      return Promise.race([answered.promise, ended.promise])
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

/** Shares the service's compile cache, so that the decoder need not load the TypeScript compiler, which takes 15 MiB. */
const compileCache = (): { readonly NODE_COMPILE_CACHE?: string } => {
  const folder = getCompileCacheDir()
  // Node reports the folder of this version, inside the configured one.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}
