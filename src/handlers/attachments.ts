import { create as createDisposition } from 'content-disposition'
import type { FastifyRequest } from 'fastify'
import type { components } from '../../generated/openapi.ts'
import { created, quoteETag } from '../contract/operation.ts'
import { mayBeInline } from '../http/inline-types.ts'
import type { Paging } from '../http/paging.ts'
import { selectRange } from '../http/ranges.ts'
import { problems } from '../problems/problems.ts'
import { type Attachments, type Download, listTaskAttachments } from '../services/attachments.ts'
import type { Handlers } from './handlers.ts'

type Attachment = components['schemas']['Attachment']
type Disposition = components['schemas']['Disposition']

interface Deps {
  readonly paging: Paging
  /** Prefix of the URLs of links; empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
  readonly attachments: Attachments
}

/** The operations of the contract's tag `attachments`. An attachment's ETag is the digest of its file. */
export const attachmentHandlers = ({ paging, publicUrl, attachments }: Deps) =>
  ({
    async listTaskAttachments(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listTaskAttachments(ctx, params.task_id, request))
    },

    async addTaskAttachment(ctx, { params, body }) {
      const attachment = await attachments.attachFile(ctx, { taskId: params.task_id, form: body })
      const path = `/attachments/${attachment.id}`
      const { sha256, taskVersion } = attachment
      return { ...created<Attachment>(path, quoteETag(sha256), attachment), taskVersion }
    },

    async downloadAttachment(ctx, { params, query, headers }) {
      return fileResponse(await attachments.download(ctx, params.attach_id), query?.disposition, headers)
    },

    async createAttachmentLink(ctx, { params, body }) {
      const { disposition, expires_in: expiresIn } = body
      const link = { attachmentId: params.attach_id, disposition, expiresIn }
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

/** The whole file, or the requested range. */
const fileResponse = (
  { file, open }: Download,
  disposition: Disposition | undefined,
  headers: FastifyRequest['headers'],
) => {
  const common = fileHeaders(file, disposition)
  const range = selectRange(isCurrent(headers['if-range'], common) ? headers.range : undefined, file.size)
  const contentType = file.content_type
  switch (range.kind) {
    // Refused only when the file is opened, since If-None-Match is evaluated before Range (RFC 9110 §13.2.2).
    case 'unsatisfiable': {
      const body = { open: () => Promise.reject(problems.rangeNotSatisfiable(file.size)) }
      return { status: 200 as const, headers: { ...common, 'content-length': file.size }, contentType, body }
    }
    case 'whole': {
      const body = { open: () => open() }
      return { status: 200 as const, headers: { ...common, 'content-length': file.size }, contentType, body }
    }
    case 'part': {
      const { start, end } = range
      const body = { open: () => open({ start, end }) }
      const part = {
        'content-length': end - start + 1,
        'content-range': `bytes ${start}-${end}/${file.size}`,
      }
      return { status: 206 as const, headers: { ...common, ...part }, contentType, body }
    }
  }
}

/** Evaluates If-Range (RFC 9110 §13.1.5). A file never changes, so its date is a strong validator, like its ETag (§8.8.2.2). */
const isCurrent = (ifRange: unknown, validators: ReturnType<typeof fileHeaders>): boolean =>
  ifRange === undefined || ifRange === validators.etag || ifRange === validators['last-modified']

/** The policy of downloads: browsers must not execute content that another user uploaded. */
const savePolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

/**
 * The policy of files that browsers display. The built-in player for audio and video is a page that loads the file with CORS,
 * so the sandbox must keep the origin. Scripts stay forbidden.
 */
const displayPolicy =
  "sandbox allow-same-origin; default-src 'none'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"

/** The name, the validators and the security policy of a file, as headers. */
const fileHeaders = (file: Download['file'], requested: Disposition = 'attachment') => {
  const disposition = allowedDisposition(file, requested)
  return {
    etag: quoteETag(file.sha256),
    'last-modified': new Date(file.created_at).toUTCString(),
    'content-disposition': createDisposition(file.file_name, { type: disposition }),
    'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
    'content-security-policy': disposition === 'inline' ? displayPolicy : savePolicy,
  }
}

/** Files that browsers might execute are never displayed. */
const allowedDisposition = (file: Download['file'], disposition: Disposition): Disposition =>
  mayBeInline(file.content_type, file.detected_content_type) ? disposition : 'attachment'
