import { create as createDisposition } from 'content-disposition'
import type { components } from '../../generated/openapi.ts'
import {
  type AttachmentFile,
  checkMayAttach,
  deleteAttachment,
  insertAttachment,
  selectAttachment,
  selectTaskAttachments,
} from '../db/attachments.ts'
import { auditReadByAdmin } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import { DatabaseUnavailable } from '../db/engine/errors.ts'
import type { Created } from '../db/engine/idempotency.ts'
import { mayBeInline } from '../http/inline-types.ts'
import { selectRange } from '../http/ranges.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, problems } from '../problems/problems.ts'
import { putDetecting } from '../storage/content-type.ts'
import { openUnlessDeleted } from '../services/open-file.ts'
import type { ByteRange, Storage, StoredFile } from '../storage/storage.ts'
import type { Sweeper } from '../jobs/sweeper.ts'

type Attachment = components['schemas']['Attachment']
type Disposition = components['schemas']['Disposition']

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly storage: Storage
  readonly sweeper: Sweeper
  readonly attachmentMaxBytes: number
  readonly attachmentQuotaBytes: number | null
}

/** The operations of the contract's tag `attachments`. An attachment's ETag is the digest of its file. */
export const attachmentHandlers = ({
  db,
  paging,
  storage,
  sweeper,
  attachmentMaxBytes,
  attachmentQuotaBytes,
}: Deps) =>
  ({
    async listTaskAttachments({ path, params, principal, query }) {
      const { request, answer } = paging(path, principal, query)
      return answer(expectDone(await selectTaskAttachments(db, principal, params.task_id, request)))
    },

    async addTaskAttachment({ params, body, principal, idempotency }) {
      const quota = attachmentQuotaBytes
      // What may be a repeat, and so need no room, is refused when that is known.
      const room = idempotency === null ? { size: body.leastSize, quota } : undefined
      expectDone(await checkMayAttach(db, principal, params.task_id, room))
      // The less a file can have, the less memory the storage needs for it.
      const maxBytes = Math.min(attachmentMaxBytes, body.mostSize)
      const { fileName, contentType, stored } = await body.receive(
        (content) => putDetecting(storage, content, { maxBytes, minBytes: body.leastSize }),
        (file) => discard(storage, file),
      )
      const { key: storageKey, size, sha256, detectedContentType } = stored
      const file = {
        taskId: params.task_id,
        fileName,
        contentType,
        detectedContentType,
        size,
        sha256,
        storageKey,
        upload: null,
      }
      const repeatable = idempotency?.([params.task_id, fileName, contentType, sha256]) ?? null
      const attachment = await keepFile(storage, stored, async () =>
        expectDone(await insertAttachment(db, principal, file, quota, repeatable)),
      )
      return created<Attachment>(`/attachments/${attachment.id}`, quoteETag(sha256), attachment)
    },

    async downloadAttachment({ params, query, principal, client, headers }) {
      const file = expectDone(await selectAttachment(db, principal, params.attach_id))
      const ownerId = file.owner_read_by_admin
      await auditReadByAdmin(db, 'attachment.read_by_admin', { client, principal, ownerId })
      const open = (range?: ByteRange) =>
        openUnlessDeleted(
          () => storage.open(file.storage_key, range),
          () => selectAttachment(db, principal, params.attach_id),
        )
      const common = fileHeaders(file, query?.disposition)
      const range = selectRange(isCurrent(headers['if-range'], common) ? headers.range : undefined, file.size)
      const contentType = file.content_type
      switch (range.kind) {
        // Refused when the file would be sent, since If-None-Match comes before Range (RFC 9110 §13.2.2).
        case 'unsatisfiable': {
          const body = { open: () => Promise.reject(problems.rangeNotSatisfiable(file.size)) }
          return { status: 200, headers: { ...common, 'content-length': file.size }, contentType, body }
        }
        case 'whole': {
          const body = { open: () => open() }
          return { status: 200, headers: { ...common, 'content-length': file.size }, contentType, body }
        }
        case 'part': {
          const { start, end } = range
          const body = { open: () => open({ start, end }) }
          const part = {
            'content-length': end - start + 1,
            'content-range': `bytes ${start}-${end}/${file.size}`,
          }
          return { status: 206, headers: { ...common, ...part }, contentType, body }
        }
      }
    },

    async deleteAttachment({ params, principal, ifMatch }) {
      expectDone(await deleteAttachment(db, principal, params.attach_id, ifMatch))
      sweeper.wake()
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

/** Keeps a stored file only if `insert` made an attachment of it. When that is not known the sweeper finds out later. */
const keepFile = async (
  storage: Storage,
  stored: StoredFile,
  insert: () => Promise<Created>,
): Promise<Created> => {
  try {
    const attachment = await insert()
    if (attachment.replayed) await discard(storage, stored)
    return attachment
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable)) await discard(storage, stored)
    throw error
  }
}

/** What cannot be removed now is left to the sweeper: it changes nothing about the answer. */
const discard = async (storage: Storage, { key }: StoredFile): Promise<void> => {
  await Promise.allSettled([storage.remove(key)])
}

/** RFC 9110 §13.1.5. A file is never changed, so the time at which it was stored is as good as its ETag (§8.8.2.2). */
const isCurrent = (ifRange: unknown, validators: ReturnType<typeof fileHeaders>): boolean =>
  ifRange === undefined || ifRange === validators.etag || ifRange === validators['last-modified']

/** What a browser gets with a file that somebody else chose: its name, and no way to run it here. */
const fileHeaders = (file: AttachmentFile, disposition: Disposition = 'attachment') => ({
  etag: quoteETag(file.sha256),
  'last-modified': new Date(file.created_at).toUTCString(),
  'content-disposition': createDisposition(file.file_name, {
    type: mayBeInline(file.content_type, file.detected_content_type) ? disposition : 'attachment',
  }),
  'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
  'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'none'",
})
