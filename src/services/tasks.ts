import type { OpContext } from '../db/engine/context.ts'
import type { Created } from '../db/engine/idempotency.ts'
import type { Handover } from '../db/quotas.ts'
import { moveTask, type TaskMove } from '../db/task-moves.ts'
import { insertTask, type NewTask, type TaskPatch, type TaskRow, updateTask } from '../db/tasks.ts'
import { conflictsOf, type TaskDates } from '../domain/dates.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { expectDone, problems } from '../problems/problems.ts'
import { expectQuotaForHandover, type TaskQuota } from './task-quota.ts'

/** Creating and changing tasks. */
export interface Tasks {
  /** @throws Problem 400, 403, 409, 413 or 422 */
  create(ctx: OpContext<Principal>, task: NewTask): Promise<Created>
  /** Applies a merge patch. @throws Problem 400, 403, 404, 412, 413 or 422 */
  update(ctx: OpContext<Principal>, taskId: string, patch: TaskPatch): Promise<TaskRow>
  /** @throws Problem 403, 404, 409, 412, 413 or 422 */
  move(ctx: OpContext<Principal>, taskId: string, to: TaskMove): Promise<TaskRow>
}

export const createTasks = (quota: TaskQuota): Tasks => {
  /** Makes a change that can give the task another owner. */
  const handOver = async (
    ctx: OpContext<Principal>,
    change: Handover,
    write: () => Promise<Outcome<TaskRow>>,
  ): Promise<TaskRow> => {
    const addHandedOver = await expectQuotaForHandover(quota, ctx, [change])
    const task = expectDone(await write())
    addHandedOver()
    return task
  }

  return {
    async create(ctx, task) {
      expectNoConflicts(task)
      const { owner_id: ownerId = ctx.principal.userId } = task
      const checkQuota = async (): Promise<void> => {
        // Only administrators create tasks for others.
        if (ownerId === ctx.principal.userId) expectDone(await quota.checkNew(ctx.principal, 1))
      }
      const created = expectDone(await insertTask(ctx, task, checkQuota))
      if (!created.replayed) quota.add(ownerId, 1)
      return created
    },

    async update(ctx, taskId, patch) {
      expectNoConflicts(patch)
      const task = await handOver(ctx, { task_id: taskId, ...patch }, () => updateTask(ctx, taskId, patch))
      const { userId } = ctx.principal
      if (patch.owner_id === userId) quota.add(userId, 1)
      return task
    },

    move: (ctx, taskId, to) => handOver(ctx, { task_id: taskId, ...to }, () => moveTask(ctx, taskId, to)),
  }
}

const expectNoConflicts = (dates: TaskDates): void => {
  const conflicts = conflictsOf(dates)
  if (conflicts.length > 0) throw problems.conflictingDates(conflicts)
}
