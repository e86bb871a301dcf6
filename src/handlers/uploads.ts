import { createHash } from 'node:crypto'
import { insertAttachment, type UploadLease } from '../db/attachments.ts'
import type { Database } from '../db/engine/client.ts'
import { isNamed } from '../db/files.ts'
import { newId } from '../db/engine/ids.ts'
import {
  deleteLeasedUpload,
  deleteUpload,
  endLease,
  insertUpload,
  leaseUpload,
  recordOffset,
  renewLease,
  selectUpload,
  type Upload,
} from '../db/uploads.ts'
import { parseSha256 } from '../http/digests.ts'
import { describeFile, validateFileName } from '../domain/file-description.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { leaseSeconds, parseChecksum, parseUploadMetadata, type PieceChecksum } from '../domain/uploads.ts'
import type { Handlers, Input } from '../contract/operation.ts'
import { expectDone, problems } from '../problems/problems.ts'
import { examine } from '../storage/content-type.ts'
import { newKey } from '../storage/keys.ts'
import { FileMissing, FileTooLarge, type Storage } from '../storage/storage.ts'
import type { Sweeper } from '../jobs/sweeper.ts'

interface Deps {
  readonly db: Database
  readonly storage: Storage
  readonly sweeper: Sweeper
  readonly attachmentMaxBytes: number
  readonly attachmentQuotaBytes: number | null
}

/** A piece on its way. */
interface Piece {
  readonly offset: number
  readonly content: AsyncIterable<Uint8Array>
  readonly checksum: PieceChecksum | null
}

/** How far an upload is after a piece. */
interface Progress {
  readonly offset: number
  readonly expiresAt: string
  /** What it became, if it is complete. */
  readonly attachmentId: string | null
}

/** The lease was not renewed in time and another request has it, or the upload is gone. */
class LeaseLost extends Error {
  override readonly name = 'LeaseLost'
}

/** The operations of the contract's tag `uploads`: the tus protocol, version 1.0.0. */
export const uploadHandlers = (deps: Deps) => {
  const { db, sweeper, attachmentMaxBytes, attachmentQuotaBytes } = deps

  const giveUp = async (principal: Principal, id: string): Promise<void> => {
    expectDone(await deleteUpload(db, principal, id))
    sweeper.wake()
  }

  return {
    async getUploadOptions() {
      return { status: 204, headers: { 'tus-max-size': attachmentMaxBytes } }
    },

    async createUpload({ params, body, principal, headers }) {
      return body.receive(async (content) => {
        const id = newId()
        const size = Number(headers['upload-length'])
        // Each part would become an attachment of its own.
        if (headers['upload-concat'] !== undefined)
          throw problems.invalidField('/Upload-Concat', 'is not supported: send the file in one upload')
        if (size > attachmentMaxBytes) throw problems.contentTooLarge(attachmentMaxBytes)
        const checksum = readChecksum(headers)
        const file = { id, taskId: params.task_id, storageKey: newKey(), ...readMetadata(headers) }
        const room = { size, quota: attachmentQuotaBytes }
        const { expires_at: expiresAt } = expectDone(await insertUpload(db, principal, file, room))
        let progress: Progress = { offset: 0, expiresAt: expiresAt ?? '', attachmentId: null }
        if (body.isThere || size === 0) {
          try {
            progress = await receivePiece(deps, principal, id, { offset: 0, content, checksum })
          } catch (error) {
            // Nobody will be told where it is.
            await Promise.allSettled([giveUp(principal, id)])
            throw error
          }
        }
        const { headers: others, ...answer } = describeProgress(progress)
        return { status: 201, headers: { location: `/uploads/${id}`, ...others }, ...answer }
      })
    },

    async getUploadOffset({ params, principal }) {
      const upload = expectDone(await selectUpload(db, principal, params.upload_id))
      const { headers, ...answer } = describeProgress(progressOf(upload))
      const { upload_length, upload_metadata } = upload
      return {
        status: 200,
        headers: { ...headers, 'upload-length': upload_length, 'upload-metadata': upload_metadata },
        ...answer,
      }
    },

    async appendUpload({ params, body, principal, headers }) {
      return body.receive(async (content) => {
        const offset = Number(headers['upload-offset'])
        const piece = { offset, content, checksum: readChecksum(headers) }
        return {
          status: 204,
          ...describeProgress(await receivePiece(deps, principal, params.upload_id, piece)),
        }
      })
    },

    async abortUpload({ params, principal }) {
      await giveUp(principal, params.upload_id)
      return { status: 204 }
    },
  } satisfies Partial<Handlers>
}

type RequestHeaders = Input<'createUpload'>['headers']

const readChecksum = ({ 'upload-checksum': header }: RequestHeaders): PieceChecksum | null => {
  if (header === undefined) return null
  const checksum = parseChecksum(String(header))
  if (checksum === null) throw problems.invalidField('/Upload-Checksum', 'must use sha1 or sha256')
  return checksum
}

const readMetadata = ({ 'upload-metadata': header }: RequestHeaders) => {
  const fault = (detail: string) => problems.invalidField('/Upload-Metadata', detail)
  const metadata = parseUploadMetadata(String(header))
  if (metadata === null) throw fault('must have each key once, and UTF-8 text as its value')
  const name = metadata.get('filename')
  if (name === undefined) throw fault('must have a filename')
  const faultOfName = validateFileName(name)
  if (faultOfName !== null) throw fault(faultOfName)
  const digest = metadata.get('sha256')
  const sha256 = digest === undefined ? null : parseSha256(digest)
  if (digest !== undefined && sha256 === null) throw fault('must have 64 hexadecimal digits as its sha256')
  return { ...describeFile(name, metadata.get('filetype') ?? ''), sha256, metadata: String(header) }
}

const progressOf = ({ upload_offset, expires_at, attachment_id }: Upload): Progress => ({
  offset: upload_offset,
  expiresAt: expires_at,
  attachmentId: attachment_id,
})

const describeProgress = ({ offset, expiresAt, attachmentId }: Progress) => ({
  headers: { 'upload-offset': offset, 'upload-expires': new Date(expiresAt).toUTCString() },
  ...(attachmentId !== null && { contentLocation: `/attachments/${attachmentId}` }),
})

/**
 * Takes in a piece of the principal's own upload. No offset is told before its bytes are durable and recorded. With the
 * last byte the upload becomes an attachment.
 */
const receivePiece = async (
  deps: Deps,
  principal: Principal,
  id: string,
  piece: Piece,
): Promise<Progress> => {
  const { db, storage } = deps
  const lease = { id, leaseId: newId() }
  const holder = holdLease(db, lease)
  const upload = expectDone(await leaseUpload(db, principal, lease, piece.offset))
  try {
    const progress = await storePiece(storage, holder, upload, piece)
    if (upload.attachment_id !== null || progress.offset < upload.upload_length) return progress
    return { ...progress, attachmentId: await finish(deps, principal, lease, holder, upload) }
  } catch (error) {
    const isGone = await removeIfGone(db, storage, upload.storage_key)
    if (error instanceof LeaseLost) throw isGone ? problems.notFound() : problems.uploadLocked(leaseSeconds)
    if (!(error instanceof FileMissing)) throw error
    await deleteLeasedUpload(db, lease)
    throw problems.uploadGone(error)
  } finally {
    await Promise.allSettled([endLease(db, lease)])
  }
}

/** Who writes under a lease. */
interface LeaseHolder {
  /** Renews the lease from time to time, so that it does not run out while bytes arrive. */
  readonly hold: () => Promise<void>
  /** Records how many bytes are durable; resolves to when the upload expires. */
  readonly record: (offset: number) => Promise<string>
}

const renewAfter = (leaseSeconds * 1_000) / 5

/** @throws LeaseLost by each of its functions */
const holdLease = (db: Database, lease: UploadLease): LeaseHolder => {
  let renewedAt = performance.now()
  const expectHeld = async <T>(ask: () => Promise<Outcome<T>>): Promise<T> => {
    const askedAt = performance.now()
    const answer = await ask()
    if (answer.outcome !== 'done') throw new LeaseLost()
    renewedAt = askedAt
    return answer.value
  }
  return {
    async hold() {
      if (performance.now() - renewedAt > renewAfter) await expectHeld(() => renewLease(db, lease))
    },
    async record(offset) {
      return (await expectHeld(() => recordOffset(db, lease, offset))).expires_at
    },
  }
}

/** Stores a piece, unless all bytes are there already: then its own is but what brought the client back. */
const storePiece = async (
  storage: Storage,
  { hold, record }: LeaseHolder,
  upload: Upload,
  { offset, content, checksum }: Piece,
): Promise<Progress> => {
  const { storage_key: key, upload_length: size } = upload
  const checked = checksum === null ? content : verify(content, checksum)
  const { expiresAt, attachmentId } = progressOf(upload)
  if (attachmentId !== null || (upload.stored === size && size > 0)) {
    await expectAtMost(size - offset, size, checked)
    return { offset: size, expiresAt, attachmentId }
  }
  const pieces = storage.append({ key, size }, offset, checked, { whole: checksum !== null, hold })
  let last = { offset, expiresAt }
  for await (const stored of pieces) last = { offset: stored, expiresAt: await record(stored) }
  return { ...last, attachmentId }
}

/** The content, which fails in the end if it is not as its checksum says. */
async function* verify(
  content: AsyncIterable<Uint8Array>,
  { algorithm, digest }: PieceChecksum,
): AsyncGenerator<Uint8Array> {
  const hash = createHash(algorithm)
  for await (const chunk of content) {
    hash.update(chunk)
    yield chunk
  }
  if (!hash.digest().equals(digest)) throw problems.checksumMismatch()
}

const expectAtMost = async (
  bytes: number,
  size: number,
  content: AsyncIterable<Uint8Array>,
): Promise<void> => {
  let left = bytes
  for await (const chunk of content) {
    left -= chunk.byteLength
    if (left < 0) throw new FileTooLarge(size)
  }
}

/** Makes an attachment of an upload whose bytes are all there. Each step can be repeated after a crash, but for the last. */
const finish = async (
  { db, storage, sweeper, attachmentQuotaBytes }: Deps,
  principal: Principal,
  lease: UploadLease,
  { hold }: LeaseHolder,
  upload: Upload,
): Promise<string> => {
  const { storage_key: storageKey, upload_length: size } = upload
  await storage.complete({ key: storageKey, size })
  const { sha256, detectedContentType } = await examine(storage, storageKey, hold)
  if (upload.sha256 !== null && upload.sha256 !== sha256) {
    await deleteLeasedUpload(db, lease)
    sweeper.wake()
    throw problems.digestMismatch('/Upload-Metadata')
  }
  const attachment = {
    taskId: upload.task_id,
    fileName: upload.file_name,
    contentType: upload.content_type,
    detectedContentType,
    size,
    sha256,
    storageKey,
    upload: lease,
  }
  return expectDone(await insertAttachment(db, principal, attachment, attachmentQuotaBytes, null)).id
}

/**
 * Removes what was written after the upload had been deleted, when its bytes may have been removed already. What cannot
 * be removed now is left to the sweeper.
 */
const removeIfGone = async (db: Database, storage: Storage, key: string): Promise<boolean> => {
  try {
    if (await isNamed(db, key)) return false
    await storage.removeUnfinished(key)
    return true
  } catch {
    return false
  }
}
