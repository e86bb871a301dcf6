import type { Database } from '../db/engine/client.ts'
import { deleteTaskTag, insertTaskTag, selectTaskTags } from '../db/task-tags.ts'
import type { Handlers } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
}

/** The operations of the contract's tag `task-tags`. */
export const taskTagHandlers = ({ db, paging }: Deps) =>
  ({
    async listTaskTags({ path, params, principal, query }) {
      const { request, answer } = paging(path, principal, query)
      return answer(expectDone(await selectTaskTags(db, principal, params.task_id, request)))
    },

    async addTaskTag({ params, principal }) {
      expectDone(await insertTaskTag(db, principal, params.task_id, params.tag_id))
      return { status: 204 }
    },

    async removeTaskTag({ params, principal, ifMatch }) {
      expectDone(await deleteTaskTag(db, principal, params.task_id, params.tag_id, ifMatch))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
