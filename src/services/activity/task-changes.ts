import { selectTaskChanges, type TaskChanges } from '../../db/activity/task-changes.ts'
import {
  type ChangeFeed,
  decodeChangeCursor,
  encodeChangeCursor,
} from '../../domain/activity/change-cursors.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext } from '../shared/context.ts'
import { expectMayListAll } from '../shared/expectations.ts'

/** What a page of the change feed starts after, and contains. */
interface ChangesRequest extends Omit<ChangeFeed, 'principal'> {
  /** The cursor of the page before; null to start from the beginning. */
  readonly since: string | null
  readonly limit: number
}

/** A page of the change feed as JSON text, and the cursor for the next one. */
interface ChangesPage extends Pick<TaskChanges, 'changed' | 'deleted' | 'hasMore'> {
  readonly nextCursor: string
}

/**
 * The changes of the tasks that the caller can see.
 *
 * @throws Problem 400 for an invalid cursor, 403, or 410 if the cursor has expired
 */
export type ListTaskChanges = (ctx: OpContext<Principal>, request: ChangesRequest) => Promise<ChangesPage>

/** `cursorKeys` seal cursors. */
export const createListTaskChanges =
  (cursorKeys: KeyRing): ListTaskChanges =>
  async (ctx, { since, limit, ...filter }) => {
    expectMayListAll(ctx, filter)
    const feed = { principal: ctx.principal, ...filter }
    const from = since === null ? { value: null } : decodeChangeCursor(cursorKeys, feed, since)
    if ('fault' in from) throw problems.invalidSince(from.fault)
    const changes = await selectTaskChanges(ctx, { ...feed, position: from.value, limit })
    if (changes === null) throw problems.changesForgotten()
    const { next, ...page } = changes
    return { ...page, nextCursor: encodeChangeCursor(cursorKeys, feed, next) }
  }
