import type { components } from '../../generated/openapi.ts'
import type { OpContext } from '../db/engine/context.ts'
import type { Created } from '../db/engine/creation.ts'
import {
  insertTask,
  type NewTask,
  selectTask,
  type TaskPatch,
  type TaskRow,
  updateTask,
} from '../db/tasks.ts'
import { conflictsOf, type TaskDates } from '../domain/dates.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { expectDone, problems } from '../problems/problems.ts'
import type { TaskQuota } from './task-quota.ts'

/** Creating and changing tasks. */
export interface Tasks {
  /** @throws Problem 400, 403, 409, 413 or 422 */
  create(ctx: OpContext<Principal>, task: NewTask): Promise<Created>
  /** Applies a merge patch. @throws Problem 400, 403, 404, 412, 413 or 422 */
  update(ctx: OpContext<Principal>, taskId: string, patch: TaskPatch): Promise<TaskRow>
}

export const createTasks = (quota: TaskQuota): Tasks => {
  /** Checks the quota of the new owner of a task. A patch that keeps the owner always passes. */
  const checkQuotaOf = async (
    ctx: OpContext<Principal>,
    taskId: string,
    ownerId: string,
  ): Promise<Outcome<unknown>> => {
    const checked = await quota.checkTransfer(ownerId, 1)
    if (checked.outcome === 'done') return checked
    const task = await selectTask(ctx, taskId)
    if (task.outcome !== 'done') return task
    const { owner_id: present } = JSON.parse(task.value.json) as components['schemas']['Task']
    return present === ownerId ? task : checked
  }

  return {
    async create(ctx, task) {
      expectNoConflicts(task)
      const { owner_id: ownerId = ctx.principal.userId } = task
      const created = await insertTask(ctx, task, async () => {
        // Only administrators create tasks for others.
        if (ownerId === ctx.principal.userId) expectDone(await quota.checkNew(ctx.principal, 1))
      })
      const { replayed, ...row } = expectDone(created)
      if (!replayed) quota.add(ownerId, 1)
      return { replayed, ...row }
    },

    async update(ctx, taskId, patch) {
      expectNoConflicts(patch)
      const { owner_id: ownerId } = patch
      if (ownerId !== undefined && ownerId !== ctx.principal.userId)
        expectDone(await checkQuotaOf(ctx, taskId, ownerId))
      const task = expectDone(await updateTask(ctx, taskId, patch))
      if (ownerId !== undefined) quota.add(ownerId, 1)
      return task
    },
  }
}

const expectNoConflicts = (dates: TaskDates): void => {
  const conflicts = conflictsOf(dates)
  if (conflicts.length > 0) throw problems.conflictingDates(conflicts)
}
