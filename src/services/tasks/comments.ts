import {
  changeText,
  type CommentListQuery,
  type CommentRow,
  findMentioned,
  insertComment,
  lockComment,
  removeComment,
  selectComment,
  selectTaskComments,
  viewComment,
} from '../../db/tasks/comments.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { forgetEventValues, recordEventOfTask } from '../../db/shared/record-event.ts'
import { countComment, lockTask } from '../../db/tasks/facts.ts'
import { followTask } from '../../db/tasks/followers.ts'
import { fieldConflicts } from '../../domain/shared/field-conflicts.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type AddedToTask, additionText, parseAddition } from './additions.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import {
  expectActive,
  expectFields,
  expectFound,
  expectMatch,
  expectMay,
  expectMayExpand,
  expectSeen,
} from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

/** A page of the comments of a task. @throws Problem 403, 404 */
export const listTaskComments = async (
  ctx: OpContext<Principal>,
  taskId: string,
  query: CommentListQuery,
  page: PageRequest,
): Promise<Page> => {
  expectMayExpand(ctx, query)
  return expectFound(await selectTaskComments(ctx, taskId, query, page))
}

/** @throws Problem 404 */
export const getComment = async (ctx: OpContext<Principal>, id: string): Promise<CommentRow> =>
  expectFound(await selectComment(ctx, id))

/** Adds a comment to a task, which its author then follows. */
export const createComment = async (
  ctx: OpContext<Principal>,
  taskId: string,
  body: string,
): Promise<AddedToTask> =>
  parseAddition(
    await idempotent(ctx, async (tx, id) => {
      const seen = expectSeen('comment.see', await lockTask(tx, taskId))
      const task = expectMay('comment.add', seen)
      expectActive(task)
      const mentions = await findMentioned(tx, taskId, body)
      const { taskVersion, view } = await pipeline(tx.db, {
        comment: () => insertComment(tx, id, task, { body, mentions }),
        event: () =>
          recordEventOfTask(
            tx,
            'comment.created',
            { taskId, resourceId: id },
            { before: {}, after: { body } },
          ),
        follower: () => followTask(tx, taskId),
        taskVersion: () => countComment(tx, taskId, 1),
        view: () => viewComment(tx, id),
      })
      return { json: additionText({ json: view.json, taskVersion }) }
    }),
  )

interface CommentPatch {
  readonly body?: string
}

/** Changes the text of a comment, if it has the expected one. The mentions of unchanged text are kept, even of users who no longer see the task. */
export const updateComment = (
  ctx: OpContext<Principal>,
  id: string,
  { body, expect = {} }: CommentPatch & { readonly expect?: CommentPatch },
): Promise<CommentRow> =>
  transaction(ctx, async (tx) => {
    const seen = expectSeen('comment.see', await lockComment(tx, id))
    const comment = expectMay('comment.change', seen)
    expectFields(fieldConflicts<Required<CommentPatch>>(expect, comment))
    expectMatch(tx, comment)
    expectActive(comment)
    if (body !== undefined && body !== comment.body) {
      const { task_id: taskId, body: before } = comment
      const mentions = await findMentioned(tx, taskId, body)
      const changes = { before: { body: before }, after: { body } }
      await pipeline(tx.db, {
        text: () => changeText(tx, comment, { body, mentions }),
        event: () => recordEventOfTask(tx, 'comment.updated', { taskId, resourceId: id }, changes),
      })
    }
    return last(viewComment(tx, id))
  })

/** Deletes a comment, and its text from the history of its task. Returns the version that the task has then. */
export const deleteComment = (ctx: OpContext<Principal>, id: string): Promise<number> =>
  transaction(ctx, async (tx) => {
    const seen = expectSeen('comment.see', await lockComment(tx, id))
    const comment = expectMay('comment.delete', seen)
    expectMatch(tx, comment)
    expectActive(comment)
    const resource = { taskId: comment.task_id, resourceId: id }
    const { taskVersion } = await pipeline(tx.db, {
      comment: () => removeComment(tx, comment),
      eventValues: () => forgetEventValues(tx, resource),
      event: () => recordEventOfTask(tx, 'comment.deleted', resource),
      taskVersion: () => countComment(tx, comment.task_id, -1),
    })
    return taskVersion
  })
