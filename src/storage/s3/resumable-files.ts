import type { CompletedPart, Part as StoredPart } from '@aws-sdk/client-s3'
import { buffer } from 'node:stream/consumers'
import { deferFailure } from '../source.ts'
import {
  FileMissing,
  FileTooLarge,
  type Storage,
  StorageUnavailable,
  type UnfinishedFile,
} from '../storage.ts'
import type { S3 } from './client.ts'
import {
  abortUpload,
  completeUpload,
  findOrCreateUpload,
  findUpload,
  ignoreMissingUpload,
  partSizeFor,
  partsOfUpload,
  uploadPart,
  uploadsOf,
} from './multipart.ts'
import { objectOf, tailOf, tailsPrefix } from './names.ts'
import { objectsBelow, putObject, readObject, removeObject, sizeOf } from './objects.ts'

/**
 * Files that arrive in several writes. All parts of a file but the last have the same size, so an offset determines their
 * number. The remainder that does not fill a part is stored as a separate object, the tail. A file that fits into a part has no
 * parts: the write that completes it stores its object. Parts and tails beyond the recorded offset are harmless, and are
 * overwritten.
 */

/**
 * See `Storage.append`. The parts have the bytes before `start`, and `memory` has the `filled` bytes after it. The tail at `offset`
 * is removed only once the caller has recorded a later offset.
 */
export async function* appendTo(
  s3: S3,
  { key, size }: UnfinishedFile,
  offset: number,
  source: AsyncIterable<Uint8Array>,
  { whole, hold }: Parameters<Storage['append']>[3],
): AsyncGenerator<number> {
  const object = objectOf(s3, key)
  const partSize = partSizeFor(size)
  const memory = Buffer.allocUnsafeSlow(Math.min(partSize, size))
  let start = offset - (offset % partSize)
  let filled = offset - start
  if (filled > 0) memory.set(await readTail(s3, key, offset))
  let upload: string | undefined

  const addPart = async (): Promise<void> => {
    await hold()
    upload ??= start === 0 ? await findOrCreateUpload(s3, object) : await findUpload(s3, object)
    if (upload === undefined) throw new FileMissing(key)
    await uploadPart(s3, object, upload, start / partSize + 1, memory.subarray(0, filled))
    start += filled
    filled = 0
  }

  const input = deferFailure(source)
  for await (const chunk of input.chunks) {
    if (start + filled + chunk.byteLength > size) throw new FileTooLarge(size)
    for (let taken = 0; taken < chunk.byteLength;) {
      const piece = chunk.subarray(taken, taken + partSize - filled)
      memory.set(piece, filled)
      filled += piece.byteLength
      taken += piece.byteLength
      if (filled < partSize || size <= partSize) continue
      await addPart()
      if (!whole) yield start
    }
  }
  if (whole) input.rethrow()
  const end = start + filled
  if (end === size && size > partSize) {
    if (filled > 0) await addPart()
  } else if ((filled > 0 && end > offset) || size === 0) {
    await hold()
    await putObject(s3, end === size ? object : tailOf(s3, key, end), memory.subarray(0, filled))
  }
  yield end
  if (end > offset && offset % partSize > 0) await removeObject(s3, tailOf(s3, key, offset))
  input.rethrow()
}

/** See `Storage.complete`. If the upload is gone, a previous call may have completed it: the size of the object decides. */
export const completeFile = async (s3: S3, { key, size }: UnfinishedFile): Promise<void> => {
  const object = objectOf(s3, key)
  const upload = await findUpload(s3, object)
  if (upload !== undefined) {
    await ignoreMissingUpload(async () => {
      const parts = await partsOfUpload(s3, object, upload)
      if (parts.reduce((sum, { Size = 0 }) => sum + Size, 0) !== size) throw new FileMissing(key)
      await completeUpload(s3, object, upload, parts.map(asCompleted))
    })
  }
  if ((await sizeOf(s3, object)) !== size) throw new FileMissing(key)
  await removeTails(s3, key)
}

/** See `Storage.removeUnfinished`. The object is removed last: an upload may be completed before it can be aborted. */
export const removeUnfinished = async (s3: S3, key: string): Promise<void> => {
  const object = objectOf(s3, key)
  for (const upload of await uploadsOf(s3, object))
    await ignoreMissingUpload(() => abortUpload(s3, object, upload))
  await removeTails(s3, key)
  await removeObject(s3, object)
}

const readTail = async (s3: S3, key: string, end: number): Promise<Buffer> =>
  buffer(await readObject(s3, tailOf(s3, key, end), key)).catch((cause: unknown) => {
    throw new StorageUnavailable({ cause })
  })

const removeTails = async (s3: S3, key: string): Promise<void> => {
  for await (const { Key } of objectsBelow(s3, tailsPrefix(s3, key)))
    await removeObject(s3, { Bucket: s3.bucket, Key })
}

const asCompleted = ({ PartNumber, ETag, ChecksumCRC32 }: StoredPart): CompletedPart => ({
  PartNumber,
  ETag,
  ChecksumCRC32,
})
