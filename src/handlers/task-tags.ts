import { quoteETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { addTaskTag, listTaskTags, removeTaskTag } from '../services/tasks/tag-links.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

/** The operations of the contract's tag `task-tags`. */
export const taskTagHandlers = ({ paging }: Deps) =>
  ({
    async listTaskTags(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listTaskTags(ctx, params.task_id, request))
    },

    async addTaskTag(ctx, { params }) {
      const version = await addTaskTag(ctx, { taskId: params.task_id, tagId: params.tag_id })
      return { status: 204, headers: { etag: quoteETag(version) } }
    },

    async removeTaskTag(ctx, { params }) {
      const version = await removeTaskTag(ctx, { taskId: params.task_id, tagId: params.tag_id })
      return { status: 204, headers: { etag: quoteETag(version) } }
    },
  }) satisfies Partial<Handlers>
