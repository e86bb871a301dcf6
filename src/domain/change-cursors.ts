import { type CursorScope, openCursor, type Opened, sealCursor } from './cursors.ts'
import type { KeyRing } from './key-ring.ts'
import type { Principal } from './permissions.ts'

/** A position in the change feed. Transaction ids are decimal strings. */
export interface ChangePosition {
  /** The epoch of the history. */
  readonly epoch: number
  /** Transaction and id of the last task read. */
  readonly changedIn: string
  readonly id: string
  /** The client has applied all tombstones before this transaction, or never had their tasks. */
  readonly tombstonesFrom: string
}

/** The feed of a user's own tasks, or of all tasks. */
export interface ChangeFeed {
  readonly principal: Principal
  readonly all: boolean
}

const scopeOf = ({ principal, all }: ChangeFeed): CursorScope => ({
  principalId: principal.userId,
  list: '/tasks/changes',
  parameters: { all },
})

/** The opaque cursor for the changes after `position`. */
export const encodeChangeCursor = (keys: KeyRing, feed: ChangeFeed, position: ChangePosition): string => {
  const { epoch, changedIn, id, tombstonesFrom } = position
  return sealCursor(keys, scopeOf(feed), [epoch, changedIn, id, tombstonesFrom].join(' '))
}

/** Decodes a cursor that was sealed for this feed. */
export const decodeChangeCursor = (
  keys: KeyRing,
  feed: ChangeFeed,
  cursor: string,
): Opened<ChangePosition> => {
  const opened = openCursor(keys, scopeOf(feed), cursor)
  if ('fault' in opened) return opened
  const [epoch, changedIn, id, tombstonesFrom] = opened.value.split(' ')
  if (changedIn === undefined || id === undefined || tombstonesFrom === undefined)
    return { fault: { kind: 'unknown' } }
  return { value: { epoch: Number(epoch), changedIn, id, tombstonesFrom } }
}
