import type { components } from '../../generated/openapi.ts'
import { created, quoteETag } from '../contract/operation.ts'
import { allowedDisposition, fileResponse } from '../http/file-response.ts'
import type { Paging } from '../http/paging.ts'
import { type Attachments, listTaskAttachments } from '../services/files/attachments.ts'
import type { Handlers } from './handlers.ts'

type Attachment = components['schemas']['Attachment']

interface Deps {
  readonly paging: Paging
  /** Prefix of the URLs of links; empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
  readonly attachments: Attachments
}

/** The operations of the contract's tag `attachments`. */
export const attachmentHandlers = ({ paging, publicUrl, attachments }: Deps) =>
  ({
    async listTaskAttachments(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listTaskAttachments(ctx, params.task_id, request))
    },

    async addTaskAttachment(ctx, { params, body }) {
      const attachment = await attachments.attachFile(ctx, { taskId: params.task_id, form: body })
      const path = `/attachments/${attachment.id}`
      return { ...created<Attachment>(path, attachment, etagOf), taskVersion: attachment.taskVersion }
    },

    async downloadAttachment(ctx, { params, query, headers }) {
      return fileResponse(await attachments.download(ctx, params.attach_id), query?.disposition, headers)
    },

    async createAttachmentLink(ctx, { params, body }) {
      const { disposition, expires_in: expiresIn } = body
      const link = { resourceId: params.attach_id, disposition, expiresIn }
      const { token, expiresAt, file } = await attachments.createLink(ctx, link)
      const path = `/attachments/${params.attach_id}/content?token=${token}`
      return {
        status: 201,
        headers: { location: path },
        body: {
          url: `${publicUrl}${path}`,
          disposition: allowedDisposition(file, disposition),
          expires_at: expiresAt,
        },
      }
    },

    async downloadLinkedAttachment(ctx, { params, headers }) {
      const { disposition } = ctx.principal.credential
      return fileResponse(await attachments.download(ctx, params.attach_id), disposition, headers)
    },

    async deleteAttachment(ctx, { params }) {
      return { status: 204, taskVersion: await attachments.delete(ctx, params.attach_id) }
    },
  }) satisfies Partial<Handlers>

/** The ETag of an attachment is the digest of its file. */
const etagOf = ({ sha256 }: Attachment): string => quoteETag(sha256)
