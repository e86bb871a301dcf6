import type { Handlers } from '../contract/operation.ts'
import { deleteRelation, insertRelation, type Relation, selectRelations } from '../db/relations.ts'
import { type RelationKind, storedRelation } from '../domain/relations.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, problems } from '../problems/problems.ts'

interface Deps {
  readonly paging: Paging
}

interface RelationPath {
  readonly task_id: string
  readonly kind: RelationKind
  readonly other_task_id: string
}

/** @throws Problem 400 if both tasks are the same */
const relationOf = ({ task_id: taskId, kind, other_task_id: relatedId }: RelationPath): Relation => {
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
      expectDone(await insertRelation(ctx, relationOf(params)))
      return { status: 204 }
    },

    async removeTaskRelation(ctx, { params }) {
      expectDone(await deleteRelation(ctx, relationOf(params)))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
