import type { CompletedPart } from '@aws-sdk/client-s3'
import { createHash } from 'node:crypto'
import { destroy } from '../source.ts'
import { FileTooLarge, type StoredFile } from '../storage.ts'
import type { S3 } from './client.ts'
import { abortUpload, completeUpload, createUpload, partSizeFor, uploadPart } from './multipart.ts'
import type { ObjectName } from './names.ts'
import { putObject, removeObject } from './objects.ts'

/**
 * Stores a file with one request if it fits into a part, otherwise with a multipart upload. Buffers one part. Destroys `source` on
 * failure.
 */
export const storeFile = async (
  s3: S3,
  object: ObjectName,
  source: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<Pick<StoredFile, 'size' | 'sha256'>> => {
  const upload = uploadOf(s3, object)
  const memory = Buffer.allocUnsafeSlow(Math.min(partSizeFor(maxBytes), maxBytes))
  const hash = createHash('sha256')
  let size = 0
  let filled = 0
  try {
    for await (const chunk of source) {
      size += chunk.byteLength
      if (size > maxBytes) throw new FileTooLarge(maxBytes)
      hash.update(chunk)
      for (let taken = 0; taken < chunk.byteLength;) {
        if (filled === memory.byteLength) {
          await upload.add(memory)
          filled = 0
        }
        const piece = chunk.subarray(taken, taken + memory.byteLength - filled)
        memory.set(piece, filled)
        filled += piece.byteLength
        taken += piece.byteLength
      }
    }
    const digest = hash.digest()
    const rest = memory.subarray(0, filled)
    if (upload.hasBegun()) {
      await upload.add(rest)
      await upload.complete()
    } else {
      await putObject(s3, object, rest, digest)
    }
    return { size, sha256: digest.toString('hex') }
  } catch (error) {
    destroy(source)
    // The object exists if the server created it and its response was lost. A background job removes what cannot be removed
    // here, and an upload whose id was lost in the same way.
    await Promise.allSettled([upload.abort(), removeObject(s3, object)])
    throw error
  }
}

/** A multipart upload, created with its first part. */
const uploadOf = (s3: S3, object: ObjectName) => {
  let id: string | undefined
  const parts: CompletedPart[] = []
  return {
    hasBegun: () => id !== undefined,
    async add(bytes: Buffer): Promise<void> {
      id ??= await createUpload(s3, object)
      parts.push(await uploadPart(s3, object, id, parts.length + 1, bytes))
    },
    complete: () => completeUpload(s3, object, id, parts),
    async abort(): Promise<void> {
      if (id !== undefined) await abortUpload(s3, object, id)
    },
  }
}
