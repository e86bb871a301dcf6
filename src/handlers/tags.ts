import type { components } from '../../generated/openapi.ts'
import { deleteTag, insertTag, selectTag, selectTags } from '../db/tags.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, type Handlers, quoteETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectMayListAll } from '../problems/problems.ts'
import type { Jobs } from '../jobs/registry.ts'

type Tag = components['schemas']['Tag']

interface Deps {
  readonly paging: Paging
  readonly jobs: Jobs
}

/** The operations of the contract's tag `tags`. A tag never changes, so its ETag is its id. */
export const tagHandlers = ({ paging, jobs }: Deps) =>
  ({
    async listTags(ctx, { path, query }) {
      expectMayListAll(ctx.principal, query)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectTags(ctx, filter, request))
    },

    async createTag(ctx, { body }) {
      const tag = expectDone(await insertTag(ctx, body))
      return created<Tag>(`/tags/${tag.id}`, quoteETag(tag.id), tag)
    },

    async getTag(ctx, { params }) {
      const { json } = expectDone(await selectTag(ctx, params.tag_id))
      return { status: 200, headers: { etag: quoteETag(params.tag_id) }, body: jsonText<Tag>(json) }
    },

    async deleteTag(ctx, { params }) {
      expectDone(await deleteTag(ctx, params.tag_id))
      jobs.wake('purge_deleted_rows')
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
