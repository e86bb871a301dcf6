import { lockUploaders } from '../db/attachments.ts'
import { type OpContext, transaction } from '../db/engine/context.ts'
import { type Created, idempotent } from '../db/engine/idempotency.ts'
import { last } from '../db/engine/transaction.ts'
import { destinationOf, NoRoom } from '../db/positions.ts'
import { referencesOfTrashed } from '../db/task-locks.ts'
import { findTaskPosition, makeRoom, type MovedTask } from '../db/task-positions.ts'
import { deleteTasks } from '../db/task-rows.ts'
import { type TaskRow, viewTask } from '../db/tasks.ts'
import { conflictsOf, type TaskDates } from '../domain/dates.ts'
import type { Principal } from '../domain/permissions.ts'
import type { NewTask, TaskPatch } from '../domain/task-fields.ts'
import { problems } from '../problems/problems.ts'
import { expectTaskQuota } from './task-quota.ts'
import { changeTask, openPlan, writePlan } from './task-plan.ts'
import {
  referencesOfCreation,
  referencesOfDeletion,
  referencesOfMove,
  referencesOfPatch,
} from './task-references.ts'
import {
  planCreation,
  expectDeletable,
  planDeletion,
  planMove,
  planRestoration,
  planUpdate,
  type TaskMove,
} from './task-rules.ts'

/** The quota of the installation; null is unlimited. */
type TaskQuota = number | null

/**
 * Creates a task.
 *
 * @throws Problem 400, 403, 409, 413 or 422
 */
export const createTask = (
  ctx: OpContext<Principal>,
  task: NewTask,
  taskQuota: TaskQuota,
): Promise<Created> => {
  expectNoConflicts(task)
  return idempotent(ctx, async (tx, id) => {
    const plan = await openPlan(tx, referencesOfCreation(task, ctx.principal.userId))
    planCreation(plan, id, task)
    const [, , view] = await Promise.all([
      writePlan(tx, plan),
      expectTaskQuota(tx, plan, taskQuota),
      viewTask(tx, id),
    ])
    return view
  })
}

/**
 * Changes a task by a merge patch.
 *
 * @throws Problem 400, 403, 404, 409, 412, 413 or 422
 */
export const updateTask = (
  ctx: OpContext<Principal>,
  id: string,
  patch: TaskPatch,
  taskQuota: TaskQuota,
): Promise<TaskRow> => {
  expectNoConflicts(patch)
  return transaction(ctx, async (tx) => {
    const plan = await openPlan(tx, referencesOfPatch(id, patch))
    planUpdate(plan, { id, conditions: tx }, patch)
    await Promise.all([writePlan(tx, plan), expectTaskQuota(tx, plan, taskQuota)])
    return last(viewTask(tx, id))
  })
}

/**
 * Moves a task, with its subtasks if it leaves its place. If there is no room at its destination, a transaction of its own makes some
 * first, because others may move the tasks there at the same time: no client sees that.
 *
 * @throws Problem 403, 404, 409, 412, 413 or 422
 */
export const moveTask = async (
  ctx: OpContext<Principal>,
  id: string,
  to: TaskMove,
  taskQuota: TaskQuota,
): Promise<TaskRow> => {
  const destination = destinationOf(to)
  let target: MovedTask | undefined
  try {
    return await transaction(ctx, async (tx) => {
      const plan = await openPlan(tx, referencesOfMove(id, to, destination.anchor))
      const { task, place } = planMove(plan, { id, conditions: tx }, to)
      target = { ...task, ...place }
      const position = await findTaskPosition(tx, target, destination)
      if (position === null) throw problems.unknownReference(`/${destination.side}`, 'task')
      changeTask(plan, task, { ...place, position })
      await Promise.all([writePlan(tx, plan), expectTaskQuota(tx, plan, taskQuota)])
      return last(viewTask(tx, id))
    })
  } catch (error) {
    if (!(error instanceof NoRoom) || target === undefined) throw error
    const moved = target
    await transaction(ctx, (tx) => makeRoom(tx, moved, destination))
    return moveTask(ctx, id, to, taskQuota)
  }
}

/**
 * Moves a task with its subtasks to the trash.
 *
 * @throws Problem 403, 404, 409, 412 or 422
 */
export const deleteTask = (ctx: OpContext<Principal>, id: string): Promise<void> =>
  transaction(ctx, async (tx) => {
    const plan = await openPlan(tx, referencesOfDeletion(id))
    planDeletion(plan, { id, conditions: tx })
    await writePlan(tx, plan)
  })

/**
 * Restores a task from the trash, with the subtasks that were deleted with it.
 *
 * @throws Problem 403, 404, 409 or 412
 */
export const restoreTask = (ctx: OpContext<Principal>, id: string): Promise<TaskRow> =>
  transaction(ctx, async (tx) => {
    const plan = await openPlan(tx, await referencesOfTrashed(tx, id))
    planRestoration(plan, { id, conditions: tx })
    await writePlan(tx, plan)
    return last(viewTask(tx, id))
  })

/**
 * Deletes a task in the trash permanently, with the subtasks that were deleted with it. Its files are deleted through the queue.
 *
 * @throws Problem 403, 404, 409 or 412
 */
export const deleteTrashedTask = (ctx: OpContext<Principal>, id: string): Promise<void> =>
  transaction(ctx, async (tx) => {
    const [, plan] = await Promise.all([lockUploaders(tx, id), openPlan(tx, { trashed: id })])
    await deleteTasks(tx, expectDeletable(plan, { id, conditions: tx }))
  })

const expectNoConflicts = (dates: TaskDates): void => {
  const conflicts = conflictsOf(dates)
  if (conflicts.length > 0) throw problems.conflictingDates(conflicts)
}
