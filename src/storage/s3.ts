import { type CompletedPart, HeadBucketCommand, type Part as StoredPart } from '@aws-sdk/client-s3'
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { S3Location } from '../config/values.ts'
import { newKey, ownerName } from './keys.ts'
import { ask, defaultLimits, openS3, type S3Limits } from './s3/client.ts'
import { listFiles, listUnfinished, missingKeys } from './s3/listing.ts'
import {
  abortUpload,
  completeUpload,
  createUpload,
  findOrCreateUpload,
  findUpload,
  ignoreMissingUpload,
  partSizeFor,
  partsOfUpload,
  uploadPart,
  uploadsOf,
} from './s3/multipart.ts'
import { objectOf, type ObjectName, ownerObject, tailOf, tailsPrefix } from './s3/names.ts'
import { objectsBelow, putObject, readObject, removeObject, sizeOf } from './s3/objects.ts'
import { destroy, deferFailure, handleEarlyErrors } from './source.ts'
import { FileMissing, FileTooLarge, StorageUnavailable } from './storage.ts'
import type { Storage, StoredFile, UnfinishedFile } from './storage.ts'

/**
 * Stores files as objects named `<prefix><key>`: with one PUT if they fit into a part, otherwise with a multipart upload. Either
 * way, an object exists only when it is complete.
 *
 * All parts of a resumable upload have the same size, so its offset determines their number. The remainder that does not fill a
 * part is stored as a separate object, the tail. Parts and tails beyond the recorded offset are harmless, and are overwritten.
 */
export const s3Storage = (location: S3Location, limits: S3Limits = defaultLimits): Storage => {
  const s3 = openS3(location, limits)
  const { bucket: Bucket, client, longRunningClient } = s3

  /** A multipart upload, created with its first part. */
  const uploadOf = (object: ObjectName) => {
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

  const store = async (
    object: ObjectName,
    source: AsyncIterable<Uint8Array>,
    maxBytes: number,
  ): Promise<Pick<StoredFile, 'size' | 'sha256'>> => {
    const upload = uploadOf(object)
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

  const removeTails = async (key: string): Promise<void> => {
    for await (const { Key } of objectsBelow(s3, tailsPrefix(s3, key)))
      await removeObject(s3, { Bucket, Key })
  }

  const readTail = async (key: string, end: number): Promise<Buffer> =>
    buffer(await readObject(s3, tailOf(s3, key, end), key)).catch((cause: unknown) => {
      throw new StorageUnavailable({ cause })
    })

  async function* append(
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
    if (filled > 0) memory.set(await readTail(key, offset))
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

  return {
    async put(source, { maxBytes }) {
      const key = newKey()
      handleEarlyErrors(source)
      return { key, ...(await store(objectOf(s3, key), source, maxBytes)) }
    },

    async *append(file, offset, source, options) {
      handleEarlyErrors(source)
      try {
        yield* append(file, offset, source, options)
      } finally {
        destroy(source)
      }
    },

    async complete({ key, size }) {
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
      await removeTails(key)
    },

    async open(key, range) {
      return readObject(s3, objectOf(s3, key), key, range)
    },

    async remove(key) {
      await removeObject(s3, objectOf(s3, key))
    },

    async removeUnfinished(key) {
      const object = objectOf(s3, key)
      for (const upload of await uploadsOf(s3, object))
        await ignoreMissingUpload(() => abortUpload(s3, object, upload))
      await removeTails(key)
      await removeObject(s3, object)
    },

    list: () => listFiles(s3),

    missing: (keys) => missingKeys(s3, keys),

    listUnfinished: () => listUnfinished(s3),

    async readOwner() {
      try {
        const body = await readObject(s3, ownerObject(s3), ownerName)
        return (await buffer(body)).toString()
      } catch (error) {
        if (error instanceof FileMissing) return null
        throw error instanceof StorageUnavailable ? error : new StorageUnavailable({ cause: error })
      }
    },

    async writeOwner(owner) {
      await putObject(s3, ownerObject(s3), Buffer.from(owner))
    },

    async check() {
      await ask(limits.check, (options) => client.send(new HeadBucketCommand({ Bucket }), options))
    },

    async close() {
      client.destroy()
      longRunningClient.destroy()
    },
  }
}

const asCompleted = ({ PartNumber, ETag, ChecksumCRC32 }: StoredPart): CompletedPart => ({
  PartNumber,
  ETag,
  ChecksumCRC32,
})
