import type { RelationKind } from '../domain/tasks/relations.ts'
import type { Paging } from '../http/paging.ts'
import { addRelation, endRelation, listTaskRelations } from '../services/tasks/relations.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

/** The operations of the contract's tag `relations`. */
export const relationHandlers = ({ paging }: Deps) =>
  ({
    async listTaskRelations(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTaskRelations(ctx, params.task_id, filter, request))
    },

    async addTaskRelation(ctx, { params }) {
      await addRelation(ctx, pathOf(params))
      return { status: 204 }
    },

    async removeTaskRelation(ctx, { params }) {
      await endRelation(ctx, pathOf(params))
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>

const pathOf = (params: {
  readonly task_id: string
  readonly kind: RelationKind
  readonly other_task_id: string
}) => ({ taskId: params.task_id, kind: params.kind, otherTaskId: params.other_task_id })
