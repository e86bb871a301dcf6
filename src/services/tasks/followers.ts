import { pipeline } from '../../db/engine/pipeline.ts'
import { lockTask } from '../../db/tasks/facts.ts'
import {
  type FollowerFilter,
  isFollower,
  selectTaskFollowers,
  setFollower,
} from '../../db/tasks/followers.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectAbsent, expectFound, expectMay, expectMayExpand, expectSeen } from '../shared/expectations.ts'

/** A page of the followers of a task. @throws Problem 403, 404 */
export const listTaskFollowers = async (
  ctx: OpContext<Principal>,
  taskId: string,
  filter: FollowerFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayExpand(ctx, filter)
  return expectFound(await selectTaskFollowers(ctx, taskId, filter, page))
}

/** Makes the caller follow or unfollow a task that they can see. */
const setFollowing = (ctx: OpContext<Principal>, taskId: string, isFollowing: boolean): Promise<void> =>
  transaction(ctx, async (tx) => {
    const { found, wasFollower } = await pipeline(tx.db, {
      found: () => lockTask(tx, taskId),
      wasFollower: () => isFollower(tx, taskId),
    })
    const task = expectMay('task.see', expectSeen('task.see', found))
    expectAbsent(tx, wasFollower)
    await setFollower(tx, task, !isFollowing)
  })

/** Makes the caller follow a task. Idempotent. */
export const followTask = (ctx: OpContext<Principal>, taskId: string): Promise<void> =>
  setFollowing(ctx, taskId, true)

/** Makes the caller unfollow a task: they do not follow it again by acting on it. Idempotent. */
export const unfollowTask = (ctx: OpContext<Principal>, taskId: string): Promise<void> =>
  setFollowing(ctx, taskId, false)
