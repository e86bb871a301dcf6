import { buffer } from 'node:stream/consumers'
import type { Readable } from 'node:stream'
import type SharpModule from 'sharp'
import { boundedQueue, type InTurn } from './domain/bounded-queue.ts'
import { firstGifFrame } from './domain/gif.ts'
import { isCrowdedJpeg } from './domain/jpeg.ts'
import { visiblePng } from './domain/png.ts'
import { isCrowdedWebp } from './domain/webp.ts'
import { type ByteRange, StorageUnavailable } from './storage/storage.ts'

/** A stored file that may be an image. */
export interface ImageFile {
  /** Bytes. */
  readonly size: number
  open(range?: ByteRange): Promise<Readable>
}

/** Makes small images of large ones. */
export interface Thumbnailer {
  /**
   * The image as WebP, at most `width` pixels wide and never larger than it was: upright, in sRGB and without metadata.
   * Of several frames it is the first.
   *
   * @throws UnsupportedImage when the file is no image that is known here, or a damaged one
   * @throws ImageTooLarge when it has too many bytes or pixels
   * @throws ThumbnailQueueFull
   * @throws FileMissing, StorageUnavailable when the file cannot be read
   */
  render(file: ImageFile, width: number): Promise<Buffer>
}

/** The file is not an image of a known kind, or nothing can be read from it. */
export class UnsupportedImage extends Error {
  override readonly name = 'UnsupportedImage'

  constructor(options?: ErrorOptions) {
    super('The file is not an image that can be read', options)
  }
}

/** The image has more bytes or pixels than are taken. */
export class ImageTooLarge extends Error {
  override readonly name = 'ImageTooLarge'
  /** Of what it has more: a number and its unit. */
  readonly limit: string

  constructor(limit: string) {
    super(`The image has more than ${limit}`)
    this.limit = limit
  }
}

/** More thumbnails were asked for than the queue may hold. */
export class ThumbnailQueueFull extends Error {
  override readonly name = 'ThumbnailQueueFull'
  readonly retryAfterSeconds = retryAfterSeconds

  constructor() {
    super('Too many thumbnails are being made')
  }
}

/** At about a tenth of a second for a photograph a full queue takes a few. */
const retryAfterSeconds = 5

/** The file is read into memory: the decoders need all of it. */
const largestFile = 32 * 1024 * 1024

/** What telephones make has up to 50 million: 250 MiB while a PNG image of them is turned upright. */
const mostPixels = 50_000_000

/** Decoding AVIF takes four times as much: 350 MiB of these. */
const mostAvifPixels = 16_000_000

/** Seconds. A photograph takes a tenth of one; the slowest image within the limits takes five on a busy machine. */
const longestTime = 20

/** In proportion to the width: else a strip of one pixel's width would be as high as it likes. */
const highest = 4

/** Rounded up to one of these, so that clients cannot fill the storage with one of each width. */
const widths = [16, 32, 64, 128, 256, 512, 1_024]

/** The width of the thumbnail that somebody gets who asks for one of `asked` pixels. */
export const thumbnailWidth = (asked: number): number => {
  const width = widths.find((width) => width >= asked)
  if (width === undefined) throw new RangeError(`No thumbnail is ${asked} pixels wide`)
  return width
}

/** How files begin whose decoders are switched on: PNG, JPEG, GIF, WebP and AVIF. */
const signatures = /^(?:\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF[^]{4}WEBP|[^]{4}ftyp(?:avif|avis|mif1))/
const longestSignature = 12
const pngSignature = '\x89PNG'
const jpegSignature = '\xff\xd8'
const riffSignature = 'RIFF'
const gifSignature = 'GIF8'

/** All others stay off, among them those for SVG, which is a program, and for formats that hardly anybody tests. */
const decoders = [
  'VipsForeignLoadPngBuffer',
  'VipsForeignLoadJpegBuffer',
  'VipsForeignLoadNsgifBuffer',
  'VipsForeignLoadWebpBuffer',
  'VipsForeignLoadHeifBuffer',
]

type Sharp = typeof SharpModule

/** Loaded for whoever asks for a thumbnail: it takes 20 MiB. */
const loadSharp = async (): Promise<Sharp> => {
  const { default: sharp } = await import('sharp')
  sharp.cache(false)
  // The threads of one image; there is one image at a time.
  sharp.concurrency(1)
  sharp.block({ operation: ['VipsForeignLoad'] })
  sharp.unblock({ operation: decoders })
  return sharp
}

/** Lets thumbnails be made one at a time, the others first come, first served: a host needs exactly one. */
export const thumbnailQueue = (maxQueue = 64): InTurn =>
  boundedQueue({ concurrency: 1, maxQueue, full: () => new ThumbnailQueueFull() })

/** Makes thumbnails when their turn comes. */
export const createThumbnailer = (inTurn: InTurn = thumbnailQueue()): Thumbnailer => {
  let loaded: Promise<Sharp> | null = null

  return {
    render: (file, width) =>
      inTurn(async () => {
        loaded ??= loadSharp()
        const sharp = await loaded
        const image = await readImage(file)
        try {
          return await shrink(sharp, image, width)
        } catch (error) {
          throw error instanceof ImageTooLarge ? error : new UnsupportedImage({ cause: error })
        }
      }),
  }
}

const shrink = async (sharp: Sharp, image: Buffer, width: number): Promise<Buffer> => {
  const header = await sharp(image, { limitInputPixels: false }).metadata()
  const limitInputPixels = header.format === 'heif' ? mostAvifPixels : mostPixels
  if (header.width * header.height > limitInputPixels) throw new ImageTooLarge(`${limitInputPixels} pixels`)
  return sharp(image, { limitInputPixels, failOn: 'error' })
    .timeout({ seconds: longestTime })
    .autoOrient()
    .resize({ width, height: highest * width, fit: 'inside', withoutEnlargement: true })
    .webp()
    .toBuffer()
}

/** The bytes of an image that are to be seen. Of anything else, however large, no more than its beginning is read. */
const readImage = async (file: ImageFile): Promise<Buffer> => {
  if (file.size < longestSignature) throw new UnsupportedImage()
  const start = await read(file, { start: 0, end: longestSignature - 1 })
  const beginning = start.toString('latin1')
  if (!signatures.test(beginning)) throw new UnsupportedImage()
  if (file.size > largestFile) throw new ImageTooLarge(`${largestFile} bytes`)
  const image = await read(file)
  if (beginning.startsWith(jpegSignature) && isCrowdedJpeg(image)) throw new UnsupportedImage()
  if (beginning.startsWith(riffSignature) && isCrowdedWebp(image)) throw new UnsupportedImage()
  if (beginning.startsWith(gifSignature)) return firstGifFrame(image)
  return beginning.startsWith(pngSignature) ? visiblePng(image) : image
}

const read = async (file: ImageFile, range?: ByteRange): Promise<Buffer> => {
  const content = await file.open(range)
  try {
    return await buffer(content)
  } catch (cause) {
    throw new StorageUnavailable({ cause })
  }
}
