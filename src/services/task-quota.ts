import { LRUCache } from 'lru-cache'
import type { Database } from '../db/engine/client.ts'
import { countOwnedTasks } from '../db/quotas.ts'
import { done, type Outcome } from '../domain/outcome.ts'

/**
 * Bounds how many tasks a user owns. A counter in the database would make the writes of a user wait for each other, so each
 * process keeps an estimate: what it counted once, and what it has added since. Only a request that the estimate
 * would refuse counts again, so that a refusal is based on what is there. Other processes add unseen until then: with n
 * processes a user can own up to n times the quota.
 */
export interface TaskQuota {
  /** Whether a user may create so many tasks. */
  roomForNew(ownerId: string, count: number): Promise<Outcome<null>>
  /**
   * Whether others may hand a user so many tasks. They can fill half of the quota only, so that nobody can keep somebody
   * else from creating tasks.
   */
  roomForTransfer(ownerId: string, count: number): Promise<Outcome<null>>
  /** Adds to the estimate of what a user owns. */
  add(ownerId: string, count: number): void
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
    const [row] = await countOwnedTasks(db, { owner_id: ownerId, limit: quota + 1 })
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

  const room = async (ownerId: string, size: number, share: number): Promise<Outcome<null>> => {
    if (limit === null || size === 0) return done(null)
    const quota = Math.floor(limit * share)
    const fits = ({ tasks }: Estimate): boolean => tasks + size <= quota
    const known = estimates.get(ownerId)
    if (known !== undefined && fits(known)) return done(null)
    const isFresh = known?.isExact === true && performance.now() - known.countedAt < recountAfter
    const estimate = isFresh ? known : await countOnce(ownerId, limit)
    if (fits(estimate)) return done(null)
    return { outcome: 'quota_exceeded', resource: 'tasks', quota, used: estimate.tasks, size }
  }

  return {
    roomForNew: (ownerId, size) => room(ownerId, size, 1),
    roomForTransfer: (ownerId, size) => room(ownerId, size, 1 / 2),
    add(ownerId, size) {
      const estimate = estimates.get(ownerId)
      if (estimate === undefined || size === 0) return
      estimate.tasks += size
      estimate.isExact = false
    },
  }
}
