import { createHash } from 'node:crypto'
import type { AttachableTask } from '../../db/files/attachments.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { isKept } from '../../db/files/deletions.ts'
import { lockStorageUse } from '../../db/shared/quotas.ts'
import { lockTask, readTaskOfUpload } from '../../db/tasks/facts.ts'
import {
  deleteLeasedUpload,
  endLease,
  insertUpload,
  lockUpload,
  type OwnUpload,
  readUpload,
  recordOffset,
  removeUpload,
  renewLease,
  takeLease,
  unfinishedBytes,
  type Upload,
} from '../../db/files/uploads.ts'
import type { FileDescription } from '../../domain/files/file-description.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import {
  type ChunkChecksum,
  hasOutcome,
  leaseSeconds,
  noOutcome,
  resumeOffset,
  type UploadLease,
  type UploadOutcome,
} from '../../domain/files/uploads.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { Problem, problems } from '../../problems/problems.ts'
import { examine } from '../../storage/content-type.ts'
import { newKey } from '../../storage/keys.ts'
import { FileMissing, FileTooLarge, type Storage } from '../../storage/storage.ts'
import { addAttachment, expectAttachable, expectRoom } from './attaching.ts'
import { type OpContext, type OpTransaction, transaction } from '../shared/context.ts'
import { expectAbsent, expectActive, expectMay, expectScopes, expectSeen } from '../shared/expectations.ts'
import { addImport, expectMayStartImport } from './importing.ts'

interface Deps {
  readonly storage: Storage
  readonly jobs: Jobs
  /** Maximum total size of a user's attachments in bytes; null for no limit. */
  readonly attachmentQuotaBytes: number | null
  readonly importFileDays: number
  /** Bytes that a user may keep of exports and imports; null for no limit. */
  readonly interchangeQuotaBytes: number | null
}

/** Part of a file, and its offset in the file. */
interface Chunk {
  readonly offset: number
  readonly content: AsyncIterable<Uint8Array>
  readonly checksum: ChunkChecksum | null
}

/** A file to upload. `size` is the size of the whole file in bytes. */
interface UploadedFile extends FileDescription {
  /** The task that the file is attached to; null for a file to import. */
  readonly taskId: string | null
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

/** The progress of an upload. */
export interface UploadProgress extends UploadOutcome, Pick<Upload, 'expires_at'> {
  /** The offset at which the client continues: see `resumeOffset`. */
  readonly upload_offset: number
}

/** The progress of an upload, and what the client said about it. */
export interface DescribedUpload extends UploadProgress, Pick<Upload, 'upload_length' | 'upload_metadata'> {}

/** Resumable uploads. Each belongs to one user, and becomes an attachment or an import with its last byte. */
export interface Uploads {
  createUpload(
    ctx: OpContext<Principal>,
    creation: Creation,
  ): Promise<UploadProgress & { readonly id: string }>
  /** @throws Problem 404, 410 */
  getProgress(ctx: OpContext<Principal>, id: string): Promise<DescribedUpload>
  /** Stores a chunk. Bytes up to the returned offset are durable. */
  appendChunk(ctx: OpContext<Principal>, chunk: Chunk & { readonly id: string }): Promise<UploadProgress>
  abortUpload(ctx: OpContext<Principal>, id: string): Promise<void>
}

export const createUploads = ({
  storage,
  jobs,
  attachmentQuotaBytes: quota,
  importFileDays,
  interchangeQuotaBytes,
}: Deps): Uploads => {
  /** Creates an upload. */
  const create = (ctx: OpContext<Principal>, id: string, file: UploadedFile): Promise<string> => {
    const { taskId, size, ...description } = file
    const upload = {
      file_name: description.fileName,
      content_type: description.contentType,
      sha256: description.sha256,
      upload_metadata: description.metadata,
      upload_length: size,
      storage_key: newKey(),
    }
    return transaction(ctx, async (tx) => {
      if (taskId === null) await expectMayStartImport(tx, { size, quota: interchangeQuotaBytes })
      const task = taskId === null ? null : await expectMayStartAttachment(tx, { taskId, size, quota })
      return insertUpload(tx, id, task, upload)
    })
  }

  /** Leases the caller's own upload to a request that writes at this offset. A complete upload is returned without a lease. */
  const lease = (ctx: OpContext<Principal>, { id, leaseId }: UploadLease, offset: number): Promise<Upload> =>
    transaction(ctx, async (tx) => {
      // The task is not locked, since the lease does not change it. The attachment is added under its lock.
      const { found, task } = await pipeline(tx.db, {
        found: () => lockUpload(tx, id),
        task: () => readTaskOfUpload(tx, id),
      })
      const upload = expectOwn(tx, found)
      const attachable =
        upload.task_id === null ? null : expectMay('attachment.add', expectSeen('attachment.see', task))
      expectAbsent(tx, true)
      if (attachable !== null) expectActive(attachable)
      if (upload.is_expired) throw problems.uploadGone()
      if (upload.is_leased) throw problems.uploadLocked()
      if (resumeOffset(upload) !== offset) throw problems.uploadConflict()
      if (!hasOutcome(upload)) await takeLease(tx, upload, leaseId)
      return upload
    })

  const abortUpload: Uploads['abortUpload'] = (ctx, id) =>
    transaction(ctx, async (tx) => {
      const upload = expectOwn(tx, await lockUpload(tx, id))
      await removeUpload(tx, upload)
      tx.afterCommit(() => jobs.wake('remove_deleted_files'))
    })

  const appendChunk: Uploads['appendChunk'] = async (ctx, { id, ...chunk }) => {
    const held = { id, leaseId: newId() }
    const writer = writeUnderLease(ctx, held)
    const upload = await lease(ctx, held, chunk.offset)
    try {
      const progress = await storeChunk(storage, { upload, chunk, writer })
      if (hasOutcome(upload) || progress.upload_offset < upload.upload_length) return progress
      return { ...progress, ...(await finish(ctx, { upload, held, writer })) }
    } catch (error) {
      const isGone = await removeIfGone(ctx, upload.storage_key)
      if (isGone && isLeaseLost(error)) throw problems.notFound()
      if (!(error instanceof FileMissing)) throw error
      await deleteLeasedUpload(ctx, held)
      throw problems.uploadGone(error)
    } finally {
      await Promise.allSettled([endLease(ctx, held)])
    }
  }

  /** Makes a complete upload an attachment or an import. After a crash, each step before the last can be repeated. */
  const finish = async (
    ctx: OpContext<Principal>,
    { upload, held, writer }: { upload: Upload; held: UploadLease; writer: LeasedWriter },
  ): Promise<UploadOutcome> => {
    const { task_id: taskId, file_name, storage_key, upload_length: size } = upload
    await storage.complete({ key: storage_key, size })
    const { sha256, ...type } = await examine(storage, storage_key, writer.hold)
    if (upload.sha256 !== null && upload.sha256 !== sha256) {
      await deleteLeasedUpload(ctx, held)
      jobs.wake('remove_deleted_files')
      throw problems.digestMismatch('/Upload-Metadata')
    }
    if (taskId === null) {
      const file = { file_name, storage_key, size, sha256 }
      const arrival = { jobs, days: importFileDays, quota: interchangeQuotaBytes, upload: held }
      const { id } = await addImport(ctx, file, arrival)
      return { ...noOutcome, import_id: id }
    }
    const file = {
      file_name,
      content_type: upload.content_type ?? type.guessedContentType,
      detected_content_type: type.detectedContentType,
      size,
      sha256,
      storage_key,
    }
    const { id, taskVersion } = await addAttachment(ctx, file, { taskId, quota, upload: held })
    return { ...noOutcome, attachment_id: id, task_version: taskVersion }
  }

  /**
   * Removes bytes that were written after the upload was deleted: the deletion may have removed the file before. If that fails,
   * a background job removes them later.
   */
  const removeIfGone = async (ctx: OpContext, key: string): Promise<boolean> => {
    try {
      if (await isKept(ctx, key)) return false
      await storage.removeUnfinished(key)
      return true
    } catch {
      return false
    }
  }

  return {
    async createUpload(ctx, { file, chunk }) {
      const id = newId()
      const expires_at = await create(ctx, id, file)
      if (chunk === null) return { id, upload_offset: 0, expires_at, ...noOutcome }
      try {
        return { id, ...(await appendChunk(ctx, { ...chunk, id, offset: 0 })) }
      } catch (error) {
        // The client does not know the address of the upload, so it cannot continue it.
        await Promise.allSettled([abortUpload(ctx, id)])
        throw error
      }
    },
    async getProgress(ctx, id) {
      const upload = expectOwn(ctx, await readUpload(ctx, id))
      if (upload.is_expired) throw problems.uploadGone()
      return { ...upload, upload_offset: resumeOffset(upload) }
    },
    appendChunk,
    abortUpload,
  }
}

/**
 * Requires that the caller may upload a file to the task. Their unfinished uploads count against the quota, so that they cannot fill the
 * storage. The caller and the task stay locked.
 *
 * @throws Problem 404, 403, 409, 413
 */
const expectMayStartAttachment = async (
  tx: OpTransaction<Principal>,
  { taskId, size, quota }: { readonly taskId: string; readonly size: number; readonly quota: number | null },
): Promise<AttachableTask> => {
  const { use, task, unfinished } = await pipeline(tx.db, {
    use: () => lockStorageUse(tx),
    task: () => lockTask(tx, taskId),
    unfinished: () => unfinishedBytes(tx),
  })
  const attachable = expectAttachable(task)
  expectRoom(use && { ...use, used: use.used + unfinished }, { size, quota })
  return attachable
}

/**
 * The caller's own upload. Its kind decides which scope an API token needs.
 *
 * @throws Problem 404, 403
 */
const expectOwn = (ctx: Pick<OpContext<Principal>, 'principal'>, upload: Upload | null): OwnUpload => {
  const own = expectMay('upload.continue', expectSeen('upload.continue', upload))
  expectScopes(ctx, [own.task_id === null ? 'imports:write' : 'attachments:write'])
  return own
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
const writeUnderLease = (ctx: OpContext, held: UploadLease): LeasedWriter => {
  let renewedAt = performance.now()
  return {
    async hold() {
      const sentAt = performance.now()
      if (sentAt - renewedAt <= renewAfter) return
      if (!(await renewLease(ctx, held))) throw problems.uploadLocked()
      renewedAt = sentAt
    },
    async record(offset) {
      const sentAt = performance.now()
      const expiry = await recordOffset(ctx, held, offset)
      if (expiry === null) throw problems.uploadLocked()
      renewedAt = sentAt
      return expiry
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
  const { storage_key: key, upload_length: size, expires_at, attachment_id, task_version, import_id } = upload
  const outcome = { attachment_id, task_version, import_id }
  const checked = checksum === null ? content : verify(content, checksum)
  if (hasOutcome(upload) || (upload.stored === size && size > 0)) {
    await discardContent(checked, { maxBytes: size - offset, size })
    return { upload_offset: size, expires_at, ...outcome }
  }
  const offsets = storage.append({ key, size }, offset, checked, {
    whole: checksum !== null,
    hold: writer.hold,
  })
  let progress = { upload_offset: offset, expires_at, ...outcome }
  for await (const stored of offsets) {
    const expiry = await writer.record(stored)
    progress = { upload_offset: stored, expires_at: expiry, ...outcome }
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
