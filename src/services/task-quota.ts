import { LRUCache } from 'lru-cache'
import type { Database } from '../db/engine/client.ts'
import type { OpContext } from '../db/engine/context.ts'
import { countOwnedTasks, type Handover, selectHandedOver, selectTaskQuota } from '../db/quotas.ts'
import { done, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { expectDone } from '../problems/problems.ts'

/**
 * Limits the number of tasks that a user owns, by the user's own quota or by that of the installation. A counter in the
 * database would make the writes of a user wait for each other, so each process keeps an estimate: what it counted once, and
 * what it has added since. Only a request that the estimate would refuse counts again, so that a refusal is based on what is
 * there. Other processes add unseen until then: with n processes a user can own up to n times the quota.
 */
export interface TaskQuota {
  /** Whether a user may create `count` more tasks. */
  checkNew(owner: Pick<Principal, 'userId' | 'taskQuota'>, count: number): Promise<Outcome<null>>
  /**
   * Whether others may transfer `count` tasks to a user. They can fill only half of the quota, so that they cannot keep the
   * user from creating tasks.
   */
  checkTransfer(ownerId: string, count: number): Promise<Outcome<null>>
  /** Adds to the estimate of what a user owns. */
  add(ownerId: string, count: number): void
}

/** Users whose estimates are kept. */
const maxUsers = 10_000

/** Milliseconds for which a count is good enough to refuse by. */
const recountAfter = 1_000

/** Milliseconds for which the quota of somebody else is known. That of the caller comes with the request. */
const quotaTtl = 5_000

interface Estimate {
  /** Null is unlimited. */
  readonly quota: number | null
  tasks: number
  /** Nothing was added since it was counted. */
  isExact: boolean
  readonly countedAt: number
}

/** New tasks of an owner, to be checked against the quota. */
interface TaskClaim {
  readonly ownerId: string
  readonly size: number
  /** The part of the quota that may be filled. */
  readonly share: number
  /** Whether the quota of an estimate is still that of the owner. */
  readonly isCurrent: (estimate: Estimate) => boolean
}

const fits = ({ quota, tasks }: Estimate, { size, share }: TaskClaim): boolean =>
  quota === null || tasks + size <= Math.floor(quota * share)

const ageOf = ({ countedAt }: Estimate): number => performance.now() - countedAt

/** `installationQuota`: for users without a quota of their own; null is unlimited. */
export const createTaskQuota = (db: Database, installationQuota: number | null): TaskQuota => {
  const estimates = new LRUCache<string, Estimate>({ max: maxUsers })
  const counting = new Map<string, Promise<Estimate>>()

  const count = async (ownerId: string): Promise<Estimate> => {
    const [row] = await countOwnedTasks(db, { owner_id: ownerId, quota: installationQuota })
    const { quota, tasks } = row ?? { quota: installationQuota, tasks: 0 }
    const estimate = { quota, tasks, isExact: true, countedAt: performance.now() }
    estimates.set(ownerId, estimate)
    return estimate
  }
  const countOnce = (ownerId: string): Promise<Estimate> => {
    const running = counting.get(ownerId)
    if (running !== undefined) return running
    const begun = count(ownerId).finally(() => counting.delete(ownerId))
    counting.set(ownerId, begun)
    return begun
  }

  /** So that a raised quota applies at once. Cheaper than counting; undefined for a user who does not exist. */
  const readQuota = async (ownerId: string): Promise<number | null | undefined> => {
    const [row] = await selectTaskQuota(db, { owner_id: ownerId, quota: installationQuota })
    return row?.quota
  }

  const check = async (claim: TaskClaim): Promise<Outcome<null>> => {
    const { ownerId, size, share, isCurrent } = claim
    if (size === 0) return done(null)
    const known = estimates.get(ownerId)
    const usable = known !== undefined && isCurrent(known) ? known : null
    if (usable !== null && fits(usable, claim)) return done(null)
    const isFresh = usable?.isExact === true && ageOf(usable) < recountAfter
    const isUnchanged = isFresh && (await readQuota(ownerId)) === usable.quota
    const estimate = isUnchanged ? usable : await countOnce(ownerId)
    const { quota, tasks: used } = estimate
    if (quota === null || fits(estimate, claim)) return done(null)
    return { outcome: 'quota_exceeded', resource: 'tasks', quota: Math.floor(quota * share), used, size }
  }

  return {
    async checkNew({ userId: ownerId, taskQuota }, size) {
      const own = taskQuota === 0 ? null : taskQuota
      const quota = taskQuota === null ? installationQuota : own
      if (quota === null) return done(null)
      return check({ ownerId, size, share: 1, isCurrent: (estimate) => estimate.quota === quota })
    },
    checkTransfer: (ownerId, size) =>
      check({ ownerId, size, share: 1 / 2, isCurrent: (estimate) => ageOf(estimate) < quotaTtl }),
    add(ownerId, size) {
      const estimate = estimates.get(ownerId)
      if (estimate === undefined || size === 0) return
      estimate.tasks += size
      estimate.isExact = false
    },
  }
}

/**
 * Expects that the users whom changes give tasks of others have quota left for them. Returns a function that adds these tasks to the
 * estimates, for when the changes are made.
 *
 * @throws Problem 413
 */
export const expectQuotaForHandover = async (
  quota: TaskQuota,
  ctx: OpContext<Principal>,
  changes: readonly Handover[],
): Promise<() => void> => {
  const { userId } = ctx.principal
  const some = changes.filter(
    ({ owner_id = userId, project_id }) => owner_id !== userId || project_id === null,
  )
  const handedOver = some.length === 0 ? [] : await selectHandedOver(ctx, some)
  for (const { owner_id: ownerId, tasks } of handedOver) expectDone(await quota.checkTransfer(ownerId, tasks))
  return () => {
    for (const { owner_id: ownerId, tasks } of handedOver) quota.add(ownerId, tasks)
  }
}
