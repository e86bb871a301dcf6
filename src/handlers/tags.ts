import type { components } from '../../generated/openapi.ts'
import { created, quoteETag, shown } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { getTag, listTags, type Tags } from '../services/tasks/tags.ts'
import type { Handlers } from './handlers.ts'

type Tag = components['schemas']['Tag']

interface Deps {
  readonly paging: Paging
  readonly tags: Tags
}

/** The operations of the contract's tag `tags`. */
export const tagHandlers = ({ paging, tags }: Deps) =>
  ({
    async listTags(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTags(ctx, filter, request))
    },

    async createTag(ctx, { body }) {
      const tag = await tags.create(ctx, body)
      return created<Tag>(`/tags/${tag.id}`, tag, etagOf)
    },

    async getTag(ctx, { params }) {
      const { json } = await getTag(ctx, params.tag_id)
      return shown<Tag>(json, etagOf)
    },

    async deleteTag(ctx, { params }) {
      await tags.delete(ctx, params.tag_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

/** A tag never changes, so its ETag is its id. */
const etagOf = ({ id }: Tag): string => quoteETag(id)
