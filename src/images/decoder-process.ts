import { flushCompileCache } from 'node:module'
import sharp from 'sharp'
import { endFirstWithoutMemory } from '../concurrency/memory-shortage.ts'
import { type DecoderMessage, type DecodeRequest, type DecodeResult, parseDecodeRequest } from './protocol.ts'

/**
 * The decoder process: decodes one image at a time for decoder.ts. It isolates the service from images that crash the
 * decoder or exhaust memory or time.
 */

endFirstWithoutMemory()

/** libvips names of the loaders for PNG, JPEG, GIF, WebP and AVIF. */
const allowedLoaders = [
  'VipsForeignLoadPngBuffer',
  'VipsForeignLoadJpegBuffer',
  'VipsForeignLoadNsgifBuffer',
  'VipsForeignLoadWebpBuffer',
  'VipsForeignLoadHeifBuffer',
]

/** Pixels. Decoding longer one-pixel strips takes seconds per million pixels. */
const maxSide = 32_768

/** The resolution of current phone cameras. */
const maxPixels = 50_000_000

/** AVIF needs about 20 bytes of memory per pixel, many times more than the other formats. */
const maxAvifPixels = 8_000_000

/** Bytes of resident memory, of which the idle process takes about 70 MiB. */
const maxMemory = 256 * 1024 * 1024

/** Microseconds of CPU time, which other load does not affect. The slowest image within the other limits takes 1.5 s. */
const maxTime = 4_000_000

/** Milliseconds between two checks of memory and CPU time. */
const watchInterval = 20

sharp.cache(false)
sharp.concurrency(1)
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({ operation: allowedLoaders })

const answer = (message: DecoderMessage, sent?: () => void): void =>
  void process.send?.(message, undefined, {}, sent)

/** SIGKILL, since process.exit would wait for the decoding thread. */
const die = (): void => void process.kill(process.pid, 'SIGKILL')

const onRequest = async (request: DecodeRequest): Promise<void> => {
  const image = await readImage(request.size)
  const watch = enforceLimits()
  const result = await decode(image, request)
  clearInterval(watch)
  answer({ ...result, memory: process.memoryUsage.rss() })
}

const readImage = async (size: number): Promise<Buffer> => {
  const image = Buffer.allocUnsafeSlow(size)
  const complete = Promise.withResolvers<void>()
  let received = 0
  const onData = (chunk: Buffer): void => {
    received += chunk.copy(image, received)
    if (received < size) return
    process.stdin.off('data', onData).pause()
    complete.resolve()
  }
  process.stdin.on('data', onData).resume()
  await complete.promise
  return image
}

const decode = async (image: Buffer, { width, height }: DecodeRequest): Promise<DecodeResult> => {
  try {
    const header = await sharp(image, { limitInputPixels: false }).metadata()
    const limitInputPixels = header.format === 'heif' ? maxAvifPixels : maxPixels
    const reason = limitPassed(header, limitInputPixels)
    if (reason !== null) return { kind: 'too-large', reason }
    const thumbnail = await sharp(image, { limitInputPixels, failOn: 'error' })
      .autoOrient()
      .resize({ width, height, fit: 'inside', withoutEnlargement: true })
      .webp()
      .toBuffer()
    return { kind: 'thumbnail', image: thumbnail }
  } catch (error) {
    return { kind: 'unsupported', reason: error instanceof Error ? error.message : String(error) }
  }
}

const limitPassed = (size: { readonly width: number; readonly height: number }, limit: number) => {
  if (Math.max(size.width, size.height) > maxSide)
    return `The image has more than ${maxSide} pixels on a side.`
  return size.width * size.height > limit ? `The image has more than ${limit} pixels.` : null
}

/** Ends the process when an image exceeds the limits. Decoding runs in another thread, so timers still fire. */
const enforceLimits = (): NodeJS.Timeout => {
  const before = process.cpuUsage()
  return setInterval(() => {
    const { user, system } = process.cpuUsage(before)
    if (process.memoryUsage.rss() > maxMemory)
      answer({ kind: 'exhausted', reason: 'Decoding the image takes too much memory.' }, die)
    else if (user + system > maxTime)
      answer({ kind: 'exhausted', reason: 'Decoding the image takes too long.' }, die)
  }, watchInterval)
}

process.on('message', (message) => void onRequest(parseDecodeRequest(message)))
// The service has ended.
process.once('disconnect', die)
process.stdin.on('error', die)

// Node writes the cache at exit, but this process ends by SIGKILL.
flushCompileCache()
answer({ kind: 'ready' })
