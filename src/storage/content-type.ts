import { fileTypeFromBuffer } from 'file-type'
import { pipeline, type Readable, Transform } from 'node:stream'
import type { Storage, StoredFile } from './storage.ts'

/** As many of a file's first bytes as its type is told by. */
const sampleSize = 4_100

/** The media type that a file's first bytes look like, without parameters; null when they look like nothing known. */
export const detectContentType = async (start: Uint8Array): Promise<string | null> => {
  // Bytes that the detector cannot cope with are of no known type either.
  const found = await fileTypeFromBuffer(start).catch(() => undefined)
  return found?.mime.split(';')[0] ?? null
}

/** Stores a file as `storage` does, and tells its type by the first bytes on the way. */
export const putDetecting = async (
  storage: Storage,
  source: Readable,
  options: Parameters<Storage['put']>[1],
): Promise<StoredFile & { readonly detectedContentType: string | null }> => {
  let start = Buffer.alloc(0)
  const content = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (start.length < sampleSize) {
        start = Buffer.concat([start, chunk.subarray(0, sampleSize - start.length)])
      }
      done(null, chunk)
    },
  })
  // Whoever reads `content` is told of its errors.
  pipeline(source, content, () => {})
  const stored = await storage.put(content, options)
  return { ...stored, detectedContentType: await detectContentType(start) }
}
