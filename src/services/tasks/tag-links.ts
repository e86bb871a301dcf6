import type { TaskTag } from '../../db/shared/record-event.ts'
import { selectTaskTags } from '../../db/tasks/tag-links.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectFound } from '../shared/expectations.ts'
import { openPlan, versionIn, writePlan } from './plan.ts'
import { referencesOfLink } from './references.ts'
import { planTag, planUntag } from './rules.ts'

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
