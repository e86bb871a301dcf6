import { fileTypeFromBuffer } from 'file-type'
import { createHash } from 'node:crypto'
import { pipeline, type Readable, Transform } from 'node:stream'
import { type Storage, StorageUnavailable, type StoredFile } from './storage.ts'

/** Number of bytes from which the type of a file is detected. */
const sampleSize = 4_100

/** What the first bytes of a file say about its media type. */
interface DetectedType {
  /** Without parameters; null if unknown. */
  readonly detectedContentType: string | null
  /** The media type of a file for which the client declared none. */
  readonly guessedContentType: string
}

const detectContentType = async (start: Uint8Array): Promise<DetectedType> => {
  // The detector throws on some malformed input.
  const found = await fileTypeFromBuffer(start).catch(() => undefined)
  const detected = found?.mime.split(';')[0] ?? null
  return {
    detectedContentType: detected,
    guessedContentType: detected ?? (start.some(isBinary) ? 'application/octet-stream' : 'text/plain'),
  }
}

/** A byte that text does not have (MIME Sniffing §3). */
const isBinary = (byte: number): boolean =>
  byte <= 0x08 || byte === 0x0b || (byte >= 0x0e && byte <= 0x1a) || (byte >= 0x1c && byte <= 0x1f)

const extendSample = (start: Uint8Array, chunk: Uint8Array): Uint8Array =>
  start.length < sampleSize ? Buffer.concat([start, chunk.subarray(0, sampleSize - start.length)]) : start

/** Stores a file, and detects its type from the first bytes on the way. */
export const putWithTypeDetection = async (
  storage: Storage,
  source: Readable,
  options: Parameters<Storage['put']>[1],
): Promise<StoredFile & DetectedType> => {
  let start: Uint8Array = Buffer.alloc(0)
  const content = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      start = extendSample(start, chunk)
      done(null, chunk)
    },
  })
  // Errors reach the storage, which reads `content`.
  pipeline(source, content, () => {})
  const stored = await storage.put(content, options)
  return { ...stored, ...(await detectContentType(start)) }
}

/**
 * Reads a stored file, and returns the size, digest and type as `putWithTypeDetection` does. `onProgress` is awaited for each chunk,
 * and can abort by throwing.
 *
 * @throws FileMissing, StorageUnavailable when the file cannot be read
 */
export const examine = async (
  storage: Storage,
  key: string,
  onProgress: () => Promise<void>,
): Promise<DetectedType & { readonly sha256: string }> => {
  const hash = createHash('sha256')
  let start: Uint8Array = Buffer.alloc(0)
  for await (const chunk of readThrough(await storage.open(key))) {
    await onProgress()
    hash.update(chunk)
    start = extendSample(start, chunk)
  }
  return { sha256: hash.digest('hex'), ...(await detectContentType(start)) }
}

async function* readThrough(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* content
  } catch (cause) {
    throw new StorageUnavailable({ cause })
  }
}
