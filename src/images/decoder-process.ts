import { flushCompileCache } from 'node:module'
import sharp from 'sharp'
import { type DecoderMessage, type DecodeRequest, type DecodeResult, parseDecodeRequest } from './protocol.ts'

/**
 * The decoder process: decodes one image at a time for the service that has started it (decoder.ts). Whatever an image
 * does to its decoder happens here, and is over when this process is killed.
 */

/** libvips names of the loaders for PNG, JPEG, GIF, WebP and AVIF. */
const allowedLoaders = [
  'VipsForeignLoadPngBuffer',
  'VipsForeignLoadJpegBuffer',
  'VipsForeignLoadNsgifBuffer',
  'VipsForeignLoadWebpBuffer',
  'VipsForeignLoadHeifBuffer',
]

/** Pixels. A strip this narrow and longer takes seconds per million pixels. */
const maxSide = 32_768

/** What phone cameras take. */
const maxPixels = 50_000_000

/** AVIF takes about 20 bytes of memory per pixel, many times what the other formats take. */
const maxAvifPixels = 8_000_000

/** Bytes of resident memory, about 70 MiB of which are taken before any image. */
const maxMemory = 256 * 1024 * 1024

/** Microseconds of processor time, which a busy machine does not shorten. The slowest image within these limits takes 1.5 s. */
const maxTime = 4_000_000

/** Milliseconds between two looks at what an image has used. */
const watchInterval = 20

sharp.cache(false)
sharp.concurrency(1)
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({ operation: allowedLoaders })

const answer = (message: DecoderMessage, sent?: () => void): void =>
  void process.send?.(message, undefined, {}, sent)

/** At once: process.exit would wait for the decoding thread. */
const die = (): void => void process.kill(process.pid, 'SIGKILL')

const onRequest = async (request: DecodeRequest): Promise<void> => {
  const image = await readImage(request.size)
  const watch = watchUse()
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

/** Ends the process when an image uses too much. Decoding runs in another thread, so this one has time to look. */
const watchUse = (): NodeJS.Timeout => {
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
// The service has ended, or has no more use for this process.
process.once('disconnect', die)
process.stdin.on('error', die)

// The service kills this process, so the cache is not written at its end.
flushCompileCache()
answer({ kind: 'ready' })
