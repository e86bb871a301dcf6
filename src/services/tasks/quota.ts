import type { TransactionContext } from '../../db/statements/context.ts'
import { countTasks } from '../../db/shared/quotas.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import type { TaskPlan } from './plan.ts'

/** The part of a user's quota that others can fill by giving them tasks, so that they cannot keep the user from creating some. */
const shareOfOthers = 1 / 2

/**
 * Counts the tasks that users get or lose by a plan, as the last of its writes: a user's count stays locked until the end of the
 * transaction. `installationQuota` is for users without a quota of their own; null is unlimited.
 *
 * @throws Problem 413 when a user would own more than their quota
 */
export const countOwnedTasks = (
  tx: TransactionContext<Principal>,
  plan: TaskPlan,
  installationQuota: number | null,
): Promise<void> | null => {
  const changes = changesOfOwners(plan)
  return changes.gained.size === 0 ? null : countChanges(tx, changes, installationQuota)
}

const countChanges = async (
  tx: TransactionContext<Principal>,
  { gained, received }: ReturnType<typeof changesOfOwners>,
  installationQuota: number | null,
): Promise<void> => {
  const caller = tx.principal.userId
  for (const { user_id, tasks, task_quota } of await countTasks(tx, gained)) {
    const size = gained.get(user_id) ?? 0
    const quota = task_quota === null ? installationQuota : task_quota === 0 ? null : task_quota
    // Only administrators create tasks for others, without a limit.
    const isLimited = user_id === caller || received.has(user_id)
    if (size <= 0 || quota === null || !isLimited) continue
    const limit = Math.floor(quota * (user_id === caller ? 1 : shareOfOthers))
    if (tasks > limit)
      throw problems.quotaExceeded({ resource: 'tasks', quota: limit, used: tasks - size, size })
  }
}

/** By how many tasks users own more, and those of them who were given tasks by others, or whose tasks recur. */
const changesOfOwners = ({ before, tasks, repeats }: TaskPlan) => {
  const gained = new Map<string, number>()
  const received = new Set<string>()
  const add = (userId: string, count: number): void =>
    void gained.set(userId, (gained.get(userId) ?? 0) + count)
  for (const { id, owner_id } of tasks.values()) {
    const present = before.get(id)?.owner_id
    if (present === owner_id) continue
    add(owner_id, 1)
    if (repeats.has(id)) received.add(owner_id)
    if (present === undefined) continue
    add(present, -1)
    received.add(owner_id)
  }
  return { gained, received }
}
