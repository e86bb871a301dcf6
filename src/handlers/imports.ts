import type { components } from '../../generated/openapi.ts'
import { created, shown } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { getImport, type Imports, listImportRows, listImports } from '../services/interchange/imports.ts'
import type { Handlers } from './handlers.ts'
import { jobETag, polled, withRetryAfter } from './job-responses.ts'

interface Deps {
  readonly paging: Paging
  readonly imports: Imports
}

type Import = components['schemas']['Import']

const respondWith = (row: Awaited<ReturnType<typeof getImport>>) =>
  polled(row, shown<Import>(row.json, jobETag))

/** The operations of the contract's tag `imports`. */
export const importHandlers = ({ paging, imports }: Deps) =>
  ({
    async listImports(ctx, { path, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listImports(ctx, request))
    },

    async createImport(ctx, { body }) {
      const uploaded = await imports.create(ctx, body)
      return withRetryAfter(created<Import>(`/imports/${uploaded.id}`, uploaded, jobETag))
    },

    async getImport(ctx, { params }) {
      return respondWith(await getImport(ctx, params.import_id))
    },

    async updateImport(ctx, { params, body }) {
      return respondWith(await imports.update(ctx, params.import_id, body))
    },

    async deleteImport(ctx, { params }) {
      await imports.remove(ctx, params.import_id)
      return { status: 204 }
    },

    async runImport(ctx, { params, body }) {
      return respondWith(await imports.run(ctx, params.import_id, body.version))
    },

    async cancelImport(ctx, { params }) {
      return respondWith(await imports.cancel(ctx, params.import_id))
    },

    async undoImport(ctx, { params }) {
      return respondWith(await imports.undo(ctx, params.import_id))
    },

    async listImportRows(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listImportRows(ctx, params.import_id, query ?? {}, request))
    },
  }) satisfies Partial<Handlers>
