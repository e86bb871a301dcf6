import type { Principal } from '../domain/permissions.ts'
import { type OpContext, transaction } from '../db/engine/context.ts'
import type { TaskTag } from '../db/record-event.ts'
import { openPlan, versionIn, writePlan } from './task-plan.ts'
import { referencesOfLink } from './task-references.ts'
import { planTag, planUntag } from './task-rules.ts'

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
