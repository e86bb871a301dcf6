import { lockUploaders } from '../../db/files/attachments.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { destinationOf, NoRoom } from '../../db/shared/positions.ts'
import { referencesOfTrashed } from '../../db/tasks/locks.ts'
import { findTaskPosition, makeRoomForTask } from '../../db/tasks/places.ts'
import { deleteTasks } from '../../db/tasks/rows.ts'
import { selectTask, type TaskRow, viewTask } from '../../db/tasks/single.ts'
import { conflictsOf, type TaskDates } from '../../domain/shared/dates.ts'
import type { TaskExpansion } from '../../domain/shared/expansions.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { scopesOfNewTask } from '../../domain/shared/scopes.ts'
import type { TaskExpectation } from '../../domain/tasks/expected.ts'
import type { NewTask, TaskPatch } from '../../domain/tasks/fields.ts'
import { defaultTimeZone } from '../../domain/shared/time-zones.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectFound, expectMayExpand, expectScopes } from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'
import { expectMetadata } from '../shared/metadata.ts'
import { readExpectation } from './expected.ts'
import { changeTask, openPlan, writePlan } from './plan.ts'
import { countOwnedTasks } from './quota.ts'
import {
  referencesOfCreation,
  referencesOfDeletion,
  referencesOfMove,
  referencesOfPatch,
} from './references.ts'
import { expectRecurrence } from './recurrence.ts'
import {
  planCreation,
  expectDeletable,
  planDeletion,
  planMove,
  planRestoration,
  planUpdate,
  type TaskMove,
} from './rules.ts'

/** The quota of the installation; null is unlimited. */
type TaskQuota = number | null

/** A task, with the related resources that `expand` embeds. @throws Problem 403, 404 */
export const getTask = async (
  ctx: OpContext<Principal>,
  id: string,
  expand: readonly TaskExpansion[],
): Promise<TaskRow> => {
  expectMayExpand(ctx, { expand })
  return expectFound(await selectTask(ctx, id, expand))
}

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
  expectScopes(ctx, scopesOfNewTask(task))
  expectNoConflicts(task)
  expectRule(task)
  expectMetadata(task.metadata ?? {})
  return idempotent(ctx, async (tx, id) => {
    const plan = await openPlan(tx, referencesOfCreation(task, ctx.principal.userId))
    planCreation(plan, id, task)
    const { view } = await pipeline(tx.db, {
      plan: () => writePlan(tx, plan),
      ownedTasks: () => countOwnedTasks(tx, plan, taskQuota),
      view: () => viewTask(tx, id),
    })
    return view
  })
}

/**
 * Changes a task by a merge patch, if its fields have the expected values.
 *
 * @throws Problem 400, 403, 404, 409, 412, 413 or 422
 */
export const updateTask = (
  ctx: OpContext<Principal>,
  id: string,
  { expect = {}, ...patch }: TaskPatch & { readonly expect?: TaskExpectation },
  taskQuota: TaskQuota,
): Promise<TaskRow> => {
  expectNoConflicts(patch)
  expectRule(patch)
  expectMetadata(patch.metadata ?? {})
  const expected = readExpectation(expect, ctx.principal.timeZone)
  return transaction(ctx, async (tx) => {
    const plan = await openPlan(tx, referencesOfPatch(id, patch, expected))
    planUpdate(plan, { id, conditions: tx, expected }, patch)
    await pipeline(tx.db, {
      plan: () => writePlan(tx, plan),
      ownedTasks: () => countOwnedTasks(tx, plan, taskQuota),
    })
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
  const move = () =>
    transaction(ctx, async (tx) => {
      const plan = await openPlan(tx, referencesOfMove(id, to, destination.anchor))
      const { task, place } = planMove(plan, { id, conditions: tx }, to)
      const position = await findTaskPosition(tx, { ...task, ...place }, destination)
      if (position === null) throw problems.unknownReference(`/${destination.side}`, 'task')
      changeTask(plan, task, { ...place, position })
      await pipeline(tx.db, {
        plan: () => writePlan(tx, plan),
        ownedTasks: () => countOwnedTasks(tx, plan, taskQuota),
      })
      return last(viewTask(tx, id))
    })
  try {
    return await move()
  } catch (error) {
    if (!(error instanceof NoRoom)) throw error
    // A transaction of its own, which has not locked the task yet: it locks all tasks around the gap in the order of their ids.
    await transaction(ctx, (tx) => makeRoomForTask(tx, error.move))
    return move()
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
    const { plan } = await pipeline(tx.db, {
      uploaders: () => lockUploaders(tx, id),
      plan: () => openPlan(tx, { trashed: id }),
    })
    await deleteTasks(tx, expectDeletable(plan, { id, conditions: tx }))
  })

/** The rule alone is valid. Whether it is together with the present recurrence is decided under the lock. */
const expectRule = ({ recurrence }: Pick<TaskPatch, 'recurrence'>): void => {
  if (recurrence?.rule !== undefined) expectRecurrence(recurrence, null, defaultTimeZone)
}

const expectNoConflicts = (dates: TaskDates): void => {
  const conflicts = conflictsOf(dates)
  if (conflicts.length > 0) throw problems.conflictingDates(conflicts)
}
