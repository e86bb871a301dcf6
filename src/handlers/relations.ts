import { type Relation, selectRelations } from '../db/relations.ts'
import { type RelationKind, storedRelation } from '../domain/relations.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, problems } from '../problems/problems.ts'
import { addRelation, endRelation } from '../services/relations.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

interface RelationPath {
  readonly task_id: string
  readonly kind: RelationKind
  readonly other_task_id: string
}

/** @throws Problem 400 if both tasks are the same */
const relationOf = ({ task_id, kind, other_task_id }: RelationPath): Relation => {
  const [taskId, relatedId] = [task_id.toLowerCase(), other_task_id.toLowerCase()]
  const stored = storedRelation(taskId, kind, relatedId)
  if (stored.taskId === stored.otherTaskId)
    throw problems.invalidFields([{ pointer: '/other_task_id', detail: 'must be another task' }])
  return { taskId, relatedId, stored }
}

/** The operations of the contract's tag `relations`. */
export const relationHandlers = ({ paging }: Deps) =>
  ({
    async listTaskRelations(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(expectDone(await selectRelations(ctx, params.task_id, filter, request)))
    },

    async addTaskRelation(ctx, { params }) {
      await addRelation(ctx, relationOf(params))
      return { status: 204 }
    },

    async removeTaskRelation(ctx, { params }) {
      await endRelation(ctx, relationOf(params))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
