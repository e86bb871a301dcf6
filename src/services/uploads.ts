import { createHash } from 'node:crypto'
import { insertAttachment, type UploadLease } from '../db/attachments.ts'
import type { OpContext } from '../db/engine/context.ts'
import { newId } from '../db/engine/ids.ts'
import { isReferenced } from '../db/files.ts'
import type { AddedToTask } from '../db/task-writes.ts'
import {
  deleteLeasedUpload,
  deleteUpload,
  endLease,
  insertUpload,
  leaseUpload,
  recordOffset,
  renewLease,
  type Upload,
  type UploadProgress,
} from '../db/uploads.ts'
import type { FileDescription } from '../domain/file-description.ts'
import type { Outcome } from '../domain/outcome.ts'
import { type ChunkChecksum, leaseSeconds } from '../domain/uploads.ts'
import type { Jobs } from '../jobs/registry.ts'
import { expectDone, Problem, problems } from '../problems/problems.ts'
import { examine } from '../storage/content-type.ts'
import { newKey } from '../storage/keys.ts'
import { FileMissing, FileTooLarge, type Storage } from '../storage/storage.ts'

interface Deps {
  readonly storage: Storage
  readonly jobs: Jobs
  /** Maximum total size of a user's attachments in bytes; null for no limit. */
  readonly attachmentQuotaBytes: number | null
}

/** Part of a file, and its offset in the file. */
interface Chunk {
  readonly offset: number
  readonly content: AsyncIterable<Uint8Array>
  readonly checksum: ChunkChecksum | null
}

/** A file to upload. `size` is the size of the whole file in bytes. */
interface UploadedFile extends FileDescription {
  readonly taskId: string
  readonly size: number
  /** Expected digest of the whole file, in hexadecimal. */
  readonly sha256: string | null
  /** The value of Upload-Metadata. */
  readonly metadata: string
}

interface Creation {
  readonly file: UploadedFile
  /** The first chunk, if the request has one. An empty file is complete with an empty chunk. */
  readonly chunk: Omit<Chunk, 'offset'> | null
}

/** Resumable uploads. Each belongs to one user, and becomes an attachment with its last byte. */
export interface Uploads {
  createUpload(ctx: OpContext, creation: Creation): Promise<UploadProgress & { readonly id: string }>
  /** Stores a chunk. Bytes up to the returned offset are durable. */
  appendChunk(ctx: OpContext, chunk: Chunk & { readonly id: string }): Promise<UploadProgress>
  abortUpload(ctx: OpContext, id: string): Promise<void>
}

export const createUploads = ({ storage, jobs, attachmentQuotaBytes: quota }: Deps): Uploads => {
  const abortUpload = async (ctx: OpContext, id: string): Promise<void> => {
    expectDone(await deleteUpload(ctx, id))
    jobs.wake('remove_deleted_files')
  }

  const appendChunk: Uploads['appendChunk'] = async (ctx, { id, ...chunk }) => {
    const lease = { id, leaseId: newId() }
    const writer = writeUnderLease(ctx, lease)
    const upload = expectDone(await leaseUpload(ctx, { ...lease, offset: chunk.offset }))
    try {
      const progress = await storeChunk(storage, { upload, chunk, writer })
      if (upload.attachment_id !== null || progress.upload_offset < upload.upload_length) return progress
      const { id: attachment_id, taskVersion: task_version } = await finish(ctx, { upload, lease, writer })
      return { ...progress, attachment_id, task_version }
    } catch (error) {
      const isGone = await removeIfGone(ctx, upload.storage_key)
      if (isGone && isLeaseLost(error)) throw problems.notFound()
      if (!(error instanceof FileMissing)) throw error
      await deleteLeasedUpload(ctx, lease)
      throw problems.uploadGone(error)
    } finally {
      await Promise.allSettled([endLease(ctx, lease)])
    }
  }

  /** Makes a complete upload an attachment. After a crash, each step before the last can be repeated. */
  const finish = async (
    ctx: OpContext,
    { upload, lease, writer }: { upload: Upload; lease: UploadLease; writer: LeasedWriter },
  ): Promise<AddedToTask> => {
    const { storage_key: storageKey, upload_length: size } = upload
    await storage.complete({ key: storageKey, size })
    const { sha256, ...type } = await examine(storage, storageKey, writer.hold)
    if (upload.sha256 !== null && upload.sha256 !== sha256) {
      await deleteLeasedUpload(ctx, lease)
      jobs.wake('remove_deleted_files')
      throw problems.digestMismatch('/Upload-Metadata')
    }
    const attachment = {
      taskId: upload.task_id,
      fileName: upload.file_name,
      contentType: upload.content_type ?? type.guessedContentType,
      detectedContentType: type.detectedContentType,
      size,
      quota,
      sha256,
      storageKey,
      upload: lease,
    }
    return expectDone(await insertAttachment(ctx, attachment))
  }

  /**
   * Removes bytes that were written after the upload was deleted: the deletion may have removed the file before. If that fails,
   * a background job removes them later.
   */
  const removeIfGone = async (ctx: OpContext, key: string): Promise<boolean> => {
    try {
      if (await isReferenced(ctx, key)) return false
      await storage.removeUnfinished(key)
      return true
    } catch {
      return false
    }
  }

  return {
    async createUpload(ctx, { file, chunk }) {
      const id = newId()
      const upload = { ...file, id, storageKey: newKey(), quota }
      const { expires_at } = expectDone(await insertUpload(ctx, upload))
      if (chunk === null) return { id, upload_offset: 0, expires_at, attachment_id: null, task_version: null }
      try {
        return { id, ...(await appendChunk(ctx, { ...chunk, id, offset: 0 })) }
      } catch (error) {
        // The client does not know the address of the upload, so it cannot continue it.
        await Promise.allSettled([abortUpload(ctx, id)])
        throw error
      }
    },
    appendChunk,
    abortUpload,
  }
}

/** Writes to an upload under a lease. */
interface LeasedWriter {
  /** Renews the lease every `renewAfter`, so that it does not expire while bytes arrive. */
  readonly hold: () => Promise<void>
  /** Records how many bytes are durable. Resolves to the time at which the upload expires. */
  readonly record: (offset: number) => Promise<string>
}

/** Milliseconds between two renewals of the lease. */
const renewAfter = (leaseSeconds * 1_000) / 5

/** Each function throws `upload_locked` when the lease is lost. */
const writeUnderLease = (ctx: OpContext, lease: UploadLease): LeasedWriter => {
  let renewedAt = performance.now()
  const expectHeld = async <T>(renew: () => Promise<Outcome<T>>): Promise<T> => {
    const sentAt = performance.now()
    const held = expectDone(await renew())
    renewedAt = sentAt
    return held
  }
  return {
    async hold() {
      if (performance.now() - renewedAt > renewAfter) await expectHeld(() => renewLease(ctx, lease))
    },
    async record(offset) {
      return (await expectHeld(() => recordOffset(ctx, { ...lease, offset }))).expires_at
    },
  }
}

const isLeaseLost = (error: unknown): boolean => error instanceof Problem && error.code === 'upload_locked'

/** Stores a chunk. If the file is already complete, the client is retrying, and the content of the chunk is discarded. */
const storeChunk = async (
  storage: Storage,
  { upload, chunk, writer }: { upload: Upload; chunk: Chunk; writer: LeasedWriter },
): Promise<UploadProgress> => {
  const { offset, content, checksum } = chunk
  const { storage_key: key, upload_length: size, expires_at, attachment_id, task_version } = upload
  const checked = checksum === null ? content : verify(content, checksum)
  if (attachment_id !== null || (upload.stored === size && size > 0)) {
    await discardContent(checked, { maxBytes: size - offset, size })
    return { upload_offset: size, expires_at, attachment_id, task_version }
  }
  const offsets = storage.append({ key, size }, offset, checked, {
    whole: checksum !== null,
    hold: writer.hold,
  })
  let progress = { upload_offset: offset, expires_at, attachment_id, task_version }
  for await (const stored of offsets) {
    const expiry = await writer.record(stored)
    progress = { upload_offset: stored, expires_at: expiry, attachment_id, task_version }
  }
  return progress
}

/** The content of a chunk; fails at its end if the checksum differs. */
async function* verify(
  content: AsyncIterable<Uint8Array>,
  { algorithm, digest }: ChunkChecksum,
): AsyncGenerator<Uint8Array> {
  const hash = createHash(algorithm)
  for await (const bytes of content) {
    hash.update(bytes)
    yield bytes
  }
  if (!hash.digest().equals(digest)) throw problems.checksumMismatch()
}

/** Reads a chunk without storing it. @throws FileTooLarge if it has more than `maxBytes` bytes, the remainder of the file */
const discardContent = async (
  content: AsyncIterable<Uint8Array>,
  { maxBytes, size }: { readonly maxBytes: number; readonly size: number },
): Promise<void> => {
  let left = maxBytes
  for await (const bytes of content) {
    left -= bytes.byteLength
    if (left < 0) throw new FileTooLarge(size)
  }
}
