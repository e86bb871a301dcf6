import { LRUCache } from 'lru-cache'
import type { Database } from '../db/engine/client.ts'
import { countOwnedTasks, QuotaExceeded } from '../db/quotas.ts'
import { onlyRow } from '../db/engine/statement.ts'

/**
 * Bounds how many tasks a user owns. A counter in the database would make the writes of a user wait for each other, so each
 * process keeps an estimate: what it counted once, and what it has added since. Only a request that the estimate
 * would refuse counts again, so that a refusal is based on what is there. Other processes add unseen until then: with n
 * processes a user can own up to n times the quota.
 */
export interface TaskQuota {
  /**
   * Resolves when a user may create so many tasks.
   *
   * @throws QuotaExceeded
   */
  expectRoom(ownerId: string, count: number): Promise<void>
  /**
   * Resolves when others may hand a user so many tasks. They can fill half of the quota only, so that nobody can keep
   * somebody else from creating tasks.
   *
   * @throws QuotaExceeded
   */
  expectRoomForTransfer(ownerId: string, count: number): Promise<void>
  /** Notes that a user may own so many more tasks. */
  added(ownerId: string, count: number): void
}

/** Users whose estimates are kept. */
const maxUsers = 10_000

/** Milliseconds for which a count is good enough to refuse by. */
const recountAfter = 1_000

interface Estimate {
  tasks: number
  /** Nothing was added since it was counted. */
  isExact: boolean
  readonly countedAt: number
}

export const createTaskQuota = (db: Database, limit: number | null): TaskQuota => {
  const estimates = new LRUCache<string, Estimate>({ max: maxUsers })
  const counting = new Map<string, Promise<Estimate>>()

  const count = async (ownerId: string, quota: number): Promise<Estimate> => {
    const row = onlyRow(await countOwnedTasks(db, { owner_id: ownerId, limit: quota + 1 }))
    const estimate = { tasks: row?.tasks ?? 0, isExact: true, countedAt: performance.now() }
    estimates.set(ownerId, estimate)
    return estimate
  }
  const countOnce = (ownerId: string, quota: number): Promise<Estimate> => {
    const running = counting.get(ownerId)
    if (running !== undefined) return running
    const begun = count(ownerId, quota).finally(() => counting.delete(ownerId))
    counting.set(ownerId, begun)
    return begun
  }

  const expectAtMost = async (ownerId: string, size: number, share: number): Promise<void> => {
    if (limit === null || size === 0) return
    const quota = Math.floor(limit * share)
    const fits = ({ tasks }: Estimate): boolean => tasks + size <= quota
    const known = estimates.get(ownerId)
    if (known !== undefined && fits(known)) return
    const isFresh = known?.isExact === true && performance.now() - known.countedAt < recountAfter
    const estimate = isFresh ? known : await countOnce(ownerId, limit)
    if (!fits(estimate)) throw new QuotaExceeded('tasks', { quota, used: estimate.tasks, size })
  }

  return {
    expectRoom: (ownerId, size) => expectAtMost(ownerId, size, 1),
    expectRoomForTransfer: (ownerId, size) => expectAtMost(ownerId, size, 1 / 2),
    added(ownerId, size) {
      const estimate = estimates.get(ownerId)
      if (estimate === undefined || size === 0) return
      estimate.tasks += size
      estimate.isExact = false
    },
  }
}
