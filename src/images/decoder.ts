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
 * Decodes images in a process of its own (decoder-process.ts), which is killed when an image takes too much time or
 * memory. It is started for the first image and ends when there has been none for a while.
 */
export interface Decoder {
  /**
   * Makes a thumbnail of the file that `open` opens. One image at a time.
   *
   * @throws UnsupportedImage, ImageTooLarge
   * @throws DecoderCrashed, DecoderUnavailable
   * @throws StorageUnavailable when reading the file fails, and what `open` throws
   */
  decode(request: DecodeRequest, open: () => Promise<Readable>): Promise<Buffer>
  /** The id of the running process, if there is one. */
  readonly pid: number | null
  /** For good. */
  close(): void
}

/** Milliseconds. */
export interface DecoderTimes {
  /** From the last byte of an image to its thumbnail. */
  readonly decode: number
  /** After which a decoder without work ends. */
  readonly idle: number
}

/** The process itself looks at its processor time; this is for when it does not get to it. */
const defaultTimes: DecoderTimes = { decode: 15_000, idle: 60_000 }

/** Milliseconds until a process that was started can take an image; usually 0.2 s. */
const startTimeout = 15_000

const script = fileURLToPath(new URL('decoder-process.ts', import.meta.url))

/** Bytes. A decoder that is left with more is ended, since the next image would have less. It starts with 70 MiB. */
const maxIdleMemory = 96 * 1024 * 1024

/** For strings of metadata. Images are outside of V8's heap. */
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

/** Sends an image and resolves to the answer. */
const exchange = async (
  decoder: DecoderProcess,
  request: DecodeRequest,
  timeout: number,
  open: () => Promise<Readable>,
): Promise<DecoderMessage> => {
  await withTimeout(startTimeout, decoder.ready, () => new DecoderUnavailable('The decoder does not start'))
  const content = await open()
  const answered = decoder.next()
  // It may end before the last byte is sent.
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
    throw new StorageUnavailable({ cause: new Error(`The file has ${sent} bytes, not ${size}`) })
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
  /** The next message; rejects when the process ends before it. */
  next(): Promise<DecoderMessage>
  kill(): void
}

const startProcess = (): DecoderProcess => {
  const child: ChildProcess = fork(script, {
    // It needs no secrets. One arena, and large blocks given back at once: freed memory would count against the next image.
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
  // Each is awaited only while there is an image.
  ready.promise.catch(() => undefined)
  ended.promise.catch(() => undefined)
  child.once('error', ({ message }) => onEnd(message))
  child.once('exit', (code, signal) => onEnd(signal ?? `exit code ${code}`))
  // Its end says the same.
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
  // An idle decoder does not keep the service from ending.
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

/** The service's cache of compiled modules, so that the decoder needs no TypeScript compiler: 15 MiB less. */
const compileCache = (): { readonly NODE_COMPILE_CACHE?: string } => {
  const folder = getCompileCacheDir()
  // Node's own folder for this version, inside the one that it was given.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}
