import { deleteTaskTag, insertTaskTag, selectTaskTags } from '../db/task-tags.ts'
import type { Handlers } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone } from '../problems/problems.ts'

interface Deps {
  readonly paging: Paging
}

/** The operations of the contract's tag `task-tags`. */
export const taskTagHandlers = ({ paging }: Deps) =>
  ({
    async listTaskTags(ctx, { path, params, query }) {
      const { request, answer } = paging(path, ctx.principal, query)
      return answer(expectDone(await selectTaskTags(ctx, params.task_id, request)))
    },

    async addTaskTag(ctx, { params }) {
      expectDone(await insertTaskTag(ctx, { taskId: params.task_id, tagId: params.tag_id }))
      return { status: 204 }
    },

    async removeTaskTag(ctx, { params }) {
      expectDone(await deleteTaskTag(ctx, { taskId: params.task_id, tagId: params.tag_id }))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
