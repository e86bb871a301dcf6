import type { components } from '../../generated/openapi.ts'
import { created, shown } from '../contract/operation.ts'
import { fileResponse } from '../http/file-response.ts'
import type { Paging } from '../http/paging.ts'
import { type Exports, getExport, listExports } from '../services/interchange/exports.ts'
import type { Handlers } from './handlers.ts'
import { jobETag, polled, withRetryAfter } from './job-responses.ts'

interface Deps {
  readonly paging: Paging
  /** Prefix of the URLs of links; empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
  readonly exports: Exports
}

type Export = components['schemas']['Export']

/** The operations of the contract's tag `exports`. */
export const exportHandlers = ({ paging, publicUrl, exports }: Deps) =>
  ({
    async listExports(ctx, { path, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listExports(ctx, request))
    },

    async createExport(ctx, { body }) {
      const wanted = await exports.create(ctx, body)
      return withRetryAfter(created<Export>(`/exports/${wanted.id}`, wanted, jobETag))
    },

    async getExport(ctx, { params }) {
      const row = await getExport(ctx, params.export_id)
      return polled(row, shown<Export>(row.json, jobETag))
    },

    async cancelExport(ctx, { params }) {
      return shown<Export>((await exports.cancel(ctx, params.export_id)).json, jobETag)
    },

    async deleteExport(ctx, { params }) {
      await exports.remove(ctx, params.export_id)
      return { status: 204 }
    },

    async downloadExport(ctx, { params, headers }) {
      return fileResponse(await exports.download(ctx, params.export_id), 'attachment', headers)
    },

    async createExportLink(ctx, { params, body }) {
      const { token, expiresAt } = await exports.createLink(ctx, params.export_id, body.expires_in)
      const path = `/exports/${params.export_id}/content?token=${token}`
      return {
        status: 201,
        headers: { location: path },
        body: { url: `${publicUrl}${path}`, expires_at: expiresAt },
      }
    },

    async downloadLinkedExport(ctx, { params, headers }) {
      return fileResponse(await exports.download(ctx, params.export_id), 'attachment', headers)
    },
  }) satisfies Partial<Handlers>
