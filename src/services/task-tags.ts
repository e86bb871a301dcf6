import { recordTagged, recordUntagged, type TaskTag } from '../db/record-event.ts'
import { touchTask } from '../db/task-facts.ts'
import { insertLink, lockTaskAndTag, removeLink, selectTaskTags } from '../db/task-tags.ts'
import type { Page, PageRequest } from '../domain/pages.ts'
import type { Principal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import { type OpContext, transaction } from './context.ts'
import {
  expectAbsent,
  expectActive,
  expectFound,
  expectMatch,
  expectMay,
  expectSeen,
} from './expectations.ts'

/** A page of the tags of a task. @throws Problem 404 */
export const listTaskTags = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Page> => expectFound(await selectTaskTags(ctx, taskId, page))

/** Adds a tag that the caller can see to a task, unless the task has it. Returns the version that the task has then. */
export const addTaskTag = (ctx: OpContext<Principal>, link: TaskTag): Promise<number> =>
  transaction(ctx, async (tx) => {
    const { task: found, isTagSeen, isTagged } = await lockTaskAndTag(tx, link)
    const seen = expectSeen('task_tag.see', found)
    if (!isTagSeen) throw problems.notFound()
    const task = expectMay('task_tag.change', seen)
    expectAbsent(tx, isTagged)
    expectActive(task)
    if (isTagged) return task.version
    const [version] = await Promise.all([
      touchTask(tx, task.id),
      insertLink(tx, task, link.tagId),
      recordTagged(tx, [link]),
    ])
    return version
  })

/** Removes a tag from a task. If-Match refers to the task. Returns the version that the task has then. */
export const removeTaskTag = (ctx: OpContext<Principal>, link: TaskTag): Promise<number> =>
  transaction(ctx, async (tx) => {
    const { task: found, isTagged } = await lockTaskAndTag(tx, link)
    const seen = expectSeen('task_tag.see', found)
    if (!isTagged) throw problems.notFound()
    const task = expectMay('task_tag.change', seen)
    expectMatch(tx, task)
    expectActive(task)
    const [version] = await Promise.all([
      touchTask(tx, task.id),
      removeLink(tx, task, link.tagId),
      recordUntagged(tx, [link]),
    ])
    return version
  })
