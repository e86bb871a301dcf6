import { type CursorScope, openCursor, sealCursor } from './cursors.ts'
import type { KeyRing } from './key-ring.ts'
import type { Principal } from './permissions.ts'

/** A position in the change feed. Transactions are decimal digits. */
export interface ChangePosition {
  /** The epoch of the history that was read. */
  readonly epoch: number
  /** The transaction and the task that were read last. */
  readonly changedIn: string
  readonly id: string
  /** Tombstones before this transaction are of tasks that the client has removed or never had. */
  readonly tombstonesFrom: string
}

/** One feed: that of a user's own tasks, or that of all tasks. */
export interface ChangeFeed {
  readonly principal: Principal
  readonly all: boolean
}

const scopeOf = ({ principal, all }: ChangeFeed): CursorScope => ({
  principalId: principal.userId,
  list: '/tasks/changes',
  filter: { all },
})

/** Makes the opaque cursor for the changes after `position`. */
export const encodeChangeCursor = (keys: KeyRing, feed: ChangeFeed, position: ChangePosition): string => {
  const { epoch, changedIn, id, tombstonesFrom } = position
  return sealCursor(keys, scopeOf(feed), [epoch, changedIn, id, tombstonesFrom].join(' '))
}

/** Reads such a cursor; null when this service did not make it for this feed. */
export const decodeChangeCursor = (
  keys: KeyRing,
  feed: ChangeFeed,
  cursor: string,
): ChangePosition | null => {
  const [epoch, changedIn, id, tombstonesFrom] = openCursor(keys, scopeOf(feed), cursor)?.split(' ') ?? []
  if (changedIn === undefined || id === undefined || tombstonesFrom === undefined) return null
  return { epoch: Number(epoch), changedIn, id, tombstonesFrom }
}
