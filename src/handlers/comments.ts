import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, quoteETag } from '../contract/operation.ts'
import { type CommentRow, selectComment, selectTaskComments } from '../db/comments.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectScopes } from '../problems/problems.ts'
import { createComment, deleteComment, updateComment } from '../services/comments.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

type Comment = components['schemas']['Comment']

/** The operations of the contract's tag `comments`. */
export const commentHandlers = ({ paging }: Deps) =>
  ({
    async listTaskComments(ctx, { path, params, query }) {
      expectScopes(scopesOfExpansions(query.expand ?? []), ctx.principal)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(expectDone(await selectTaskComments(ctx, params.task_id, filter, request)))
    },

    async createComment(ctx, { params, body }) {
      const comment = await createComment(ctx, params.task_id, body.body)
      const { taskVersion } = comment
      return { ...created<Comment>(`/comments/${comment.id}`, quoteETag(1), comment), taskVersion }
    },

    async getComment(ctx, { params }) {
      return commentResponse(expectDone(await selectComment(ctx, params.comment_id)))
    },

    async updateComment(ctx, { params, body }) {
      return commentResponse(await updateComment(ctx, params.comment_id, body))
    },

    async deleteComment(ctx, { params }) {
      return { status: 204, taskVersion: await deleteComment(ctx, params.comment_id) }
    },
  }) satisfies Partial<Handlers>

const commentResponse = ({ json, version }: CommentRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(version) },
  body: jsonText<Comment>(json),
})
