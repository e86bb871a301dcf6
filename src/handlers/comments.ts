import type { components } from '../../generated/openapi.ts'
import { created, ok, versionETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import {
  createComment,
  deleteComment,
  getComment,
  listTaskComments,
  updateComment,
} from '../services/tasks/comments.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

type Comment = components['schemas']['Comment']

/** The operations of the contract's tag `comments`. */
export const commentHandlers = ({ paging }: Deps) =>
  ({
    async listTaskComments(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listTaskComments(ctx, params.task_id, filter, request))
    },

    async createComment(ctx, { params, body }) {
      const comment = await createComment(ctx, params.task_id, body.body)
      const { taskVersion } = comment
      return { ...created<Comment>(`/comments/${comment.id}`, comment, versionETag), taskVersion }
    },

    async getComment(ctx, { params }) {
      return ok<Comment>(await getComment(ctx, params.comment_id))
    },

    async updateComment(ctx, { params, body }) {
      return ok<Comment>(await updateComment(ctx, params.comment_id, body))
    },

    async deleteComment(ctx, { params }) {
      return { status: 204, taskVersion: await deleteComment(ctx, params.comment_id) }
    },
  }) satisfies Partial<Handlers>
