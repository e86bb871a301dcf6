import { LRUCache } from 'lru-cache'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { fairQueue } from '../concurrency/fair-queue.ts'
import { type ByteRange, StorageUnavailable } from '../storage/storage.ts'
import { createDecoder, type Decoder } from './decoder.ts'
import {
  DecoderCrashed,
  ImageTooLarge,
  ThumbnailQueueFull,
  TooManyThumbnails,
  UnsupportedImage,
} from './errors.ts'

/** A stored file that may be an image. */
export interface ImageFile {
  /** Unique per content. */
  readonly key: string
  /** Bytes. */
  readonly size: number
  open(range?: ByteRange): Promise<Readable>
}

export interface ThumbnailRequest {
  readonly file: ImageFile
  /** One of the widths that `thumbnailWidth` returns. */
  readonly width: number
  readonly caller: string
  /** Aborted when nobody waits for the thumbnail any more. Decoding that has already begun is not interrupted. */
  readonly signal: AbortSignal
}

export interface Thumbnailer {
  /**
   * Renders the image as WebP, at most `width` pixels wide and never enlarged: upright, in sRGB, without metadata, and the
   * first frame of an animation.
   *
   * @throws UnsupportedImage, ImageTooLarge; both are cached
   * @throws TooManyThumbnails, ThumbnailQueueFull
   * @throws DecoderUnavailable
   * @throws FileMissing, StorageUnavailable when the file cannot be read
   */
  render(request: ThumbnailRequest): Promise<Buffer>
  /** Ends the decoder. */
  close(): void
}

/** Bytes. Decoding needs the whole file in memory. */
const maxFileSize = 32 * 1024 * 1024

/** Bounds the height of the thumbnail of a narrow image. */
const maxHeightToWidth = 4

/** Widths are rounded up to one of these, which bounds the thumbnails stored per image. */
const widths = [16, 32, 64, 128, 256, 512, 1_024]

/** Rounds a requested width up. */
export const thumbnailWidth = (requested: number): number => {
  const width = widths.find((width) => width >= requested)
  if (width === undefined) throw new RangeError(`No thumbnail is ${requested} pixels wide`)
  return width
}

/** The first bytes of PNG, JPEG, GIF, WebP and AVIF files. */
const signatures = /^(?:\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF[^]{4}WEBP|[^]{4}ftyp(?:avif|avis|mif1))/
const maxSignatureLength = 12

/** `maxWaiting` is per caller: browsers request six images at a time, HTTP/2 proxies some more. `maxWait` is in milliseconds. */
const queueLimits = { maxWaiting: 16, maxWaitingInAll: 128, maxWait: 20_000 }

/** Failures expire, since a busy machine may have caused them. `ttl` is in milliseconds. */
const failureCache = { max: 1_000, ttl: 3_600_000 }

export const createThumbnailer = ({
  decoder = createDecoder(),
  limits = queueLimits,
}: {
  readonly decoder?: Decoder
  readonly limits?: typeof queueLimits
} = {}): Thumbnailer => {
  const queue = fairQueue({
    ...limits,
    concurrency: 1,
    share: 1,
    refuse: (reason) => (reason === 'caller_busy' ? new TooManyThumbnails() : new ThumbnailQueueFull()),
  })
  const failures = new LRUCache<string, UnsupportedImage | ImageTooLarge>(failureCache)

  const decode = async (file: ImageFile, width: number): Promise<Buffer> => {
    const request = { size: file.size, width, height: maxHeightToWidth * width }
    const open = () => file.open()
    try {
      return await decoder.decode(request, open)
    } catch (error) {
      if (!(error instanceof DecoderCrashed)) throw error
    }
    // Retried once: the image may not be the cause of the crash.
    try {
      return await decoder.decode(request, open)
    } catch (error) {
      throw error instanceof DecoderCrashed ? new UnsupportedImage({ cause: error }) : error
    }
  }

  return {
    async render({ file, width, caller, signal }) {
      const known = failures.get(file.key)
      if (known !== undefined) throw known
      try {
        await checkFile(file)
        const work = { caller, isAbandoned: () => signal.aborted, sent: [] }
        return await queue.run(work, () => decode(file, width))
      } catch (error) {
        if (error instanceof UnsupportedImage || error instanceof ImageTooLarge) failures.set(file.key, error)
        throw error
      }
    },
    close: () => decoder.close(),
  }
}

/** Refuses non-images by their first bytes, before they enter the queue. */
const checkFile = async (file: ImageFile): Promise<void> => {
  if (file.size < maxSignatureLength) throw new UnsupportedImage()
  const start = await readBytes(file, { start: 0, end: maxSignatureLength - 1 })
  if (!signatures.test(start.toString('latin1'))) throw new UnsupportedImage()
  if (file.size > maxFileSize) throw new ImageTooLarge(`The image has more than ${maxFileSize} bytes.`)
}

const readBytes = async (file: ImageFile, range: ByteRange): Promise<Buffer> => {
  const content = await file.open(range)
  try {
    return await buffer(content)
  } catch (cause) {
    throw new StorageUnavailable({ cause })
  }
}
