import type { TaskTag } from '../db/record-event.ts'
import { selectTaskTags } from '../db/task-tags.ts'
import type { Page, PageRequest } from '../domain/pages.ts'
import type { Principal } from '../domain/permissions.ts'
import { type OpContext, transaction } from './context.ts'
import { expectFound } from './expectations.ts'
import { openPlan, versionIn, writePlan } from './task-plan.ts'
import { referencesOfLink } from './task-references.ts'
import { planTag, planUntag } from './task-rules.ts'

/** A page of the tags of a task. @throws Problem 404 */
export const listTaskTags = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Page> => expectFound(await selectTaskTags(ctx, taskId, page))

/**
 * Adds a tag that the caller can see to a task, unless the task has it. Returns the version that the task has then.
 *
 * @throws Problem 403, 404, 409 or 412
 */
export const addTaskTag = (ctx: OpContext<Principal>, link: TaskTag): Promise<number> =>
  transaction(ctx, async (tx) => {
    const plan = await openPlan(tx, referencesOfLink(link))
    planTag(plan, { id: link.taskId, conditions: tx }, link.tagId)
    await writePlan(tx, plan)
    return versionIn(plan, link.taskId)
  })

/**
 * Removes a tag from a task. If-Match refers to the task. Returns the version that the task has then.
 *
 * @throws Problem 403, 404, 409 or 412
 */
export const removeTaskTag = (ctx: OpContext<Principal>, link: TaskTag): Promise<number> =>
  transaction(ctx, async (tx) => {
    const plan = await openPlan(tx, referencesOfLink(link))
    planUntag(plan, { id: link.taskId, conditions: tx }, link.tagId)
    await writePlan(tx, plan)
    return versionIn(plan, link.taskId)
  })
