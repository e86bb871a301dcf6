import { create as createDisposition } from 'content-disposition'
import type { components } from '../../generated/openapi.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import { type AttachmentFile, deleteAttachment, selectTaskAttachments } from '../db/attachments.ts'
import { mayBeInline } from '../http/inline-types.ts'
import type { Paging } from '../http/paging.ts'
import { selectRange } from '../http/ranges.ts'
import type { Jobs } from '../jobs/registry.ts'
import { expectDone, problems } from '../problems/problems.ts'
import type { Attachments } from '../services/attachments.ts'

type Attachment = components['schemas']['Attachment']
type Disposition = components['schemas']['Disposition']

interface Deps {
  readonly paging: Paging
  readonly attachments: Attachments
  readonly jobs: Jobs
}

/** The operations of the contract's tag `attachments`. An attachment's ETag is the digest of its file. */
export const attachmentHandlers = ({ paging, attachments, jobs }: Deps) =>
  ({
    async listTaskAttachments(ctx, { path, params, query }) {
      const { request: page, answer } = paging(path, ctx.principal, query)
      return answer(expectDone(await selectTaskAttachments(ctx, { taskId: params.task_id, page })))
    },

    async addTaskAttachment(ctx, { params, body }) {
      const attachment = await attachments.attachFile(ctx, { taskId: params.task_id, form: body })
      const path = `/attachments/${attachment.id}`
      const { sha256, taskVersion } = attachment
      return { ...created<Attachment>(path, quoteETag(sha256), attachment), taskVersion }
    },

    async downloadAttachment(ctx, { params, query, headers }) {
      const { file, open } = await attachments.download(ctx, params.attach_id)
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

    async deleteAttachment(ctx, { params }) {
      const { task_version: taskVersion } = expectDone(await deleteAttachment(ctx, params.attach_id))
      jobs.wake('remove_deleted_files')
      return { status: 204, taskVersion }
    },
  }) satisfies Partial<Handlers>

/** RFC 9110 §13.1.5. A file never changes, so its date identifies it as well as its ETag does (§8.8.2.2). */
const isCurrent = (ifRange: unknown, validators: ReturnType<typeof fileHeaders>): boolean =>
  ifRange === undefined || ifRange === validators.etag || ifRange === validators['last-modified']

/** Headers that name the file, and keep a browser from running content that another user chose. */
const fileHeaders = (file: AttachmentFile, disposition: Disposition = 'attachment') => ({
  etag: quoteETag(file.sha256),
  'last-modified': new Date(file.created_at).toUTCString(),
  'content-disposition': createDisposition(file.file_name, {
    type: mayBeInline(file.content_type, file.detected_content_type) ? disposition : 'attachment',
  }),
  'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
  'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'none'",
})
