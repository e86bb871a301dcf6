import { type CursorScope, openCursor, type Opened, sealCursor } from '../shared/cursors.ts'
import type { KeyRing } from '../shared/key-ring.ts'
import type { Principal } from '../shared/permissions.ts'

/** A position in the change feed. Transaction ids are decimal strings. */
export interface ChangePosition {
  /** The epoch of the history. */
  readonly epoch: number
  /** The feed position of the last task read: the transaction of its last change, or of a later change of membership. */
  readonly at: string
  /** The transaction of that task's last change. */
  readonly changedIn: string
  /** The id of that task. */
  readonly id: string
  /** The first transaction whose tombstones and changes of membership the client has not read yet. */
  readonly tombstonesFrom: string
}

/** The filter of a feed; null for any value. */
export interface ChangeFilter {
  /** Ids, or `none` for personal tasks. */
  readonly projects: readonly string[] | null
  readonly assignees: readonly string[] | null
}

/** The feed of a user's own tasks, or of all tasks. */
export interface ChangeFeed extends ChangeFilter {
  readonly principal: Principal
  readonly all: boolean
}

/** Sorted and without duplicates: neither order nor repetition changes the meaning of a filter. */
const alternatives = (values: readonly string[]): string[] => [...new Set(values)].toSorted()

const scopeOf = ({ principal, all, projects, assignees }: ChangeFeed): CursorScope => ({
  principalId: principal.userId,
  list: '/tasks/changes',
  parameters: {
    all,
    ...(projects !== null && { project_id: alternatives(projects) }),
    ...(assignees !== null && { assignee_id: alternatives(assignees) }),
  },
})

/** The opaque cursor for the changes after `position`. */
export const encodeChangeCursor = (keys: KeyRing, feed: ChangeFeed, position: ChangePosition): string => {
  const { epoch, at, changedIn, id, tombstonesFrom } = position
  return sealCursor(keys, scopeOf(feed), [epoch, at, changedIn, id, tombstonesFrom].join(' '))
}

/** Decodes a cursor that was sealed for this feed. */
export const decodeChangeCursor = (
  keys: KeyRing,
  feed: ChangeFeed,
  cursor: string,
): Opened<ChangePosition> => {
  const opened = openCursor(keys, scopeOf(feed), cursor)
  if ('fault' in opened) return opened
  const [epoch, at, changedIn, id, tombstonesFrom] = opened.value.split(' ')
  if (at === undefined || changedIn === undefined || id === undefined || tombstonesFrom === undefined)
    return { fault: { kind: 'unknown' } }
  return { value: { epoch: Number(epoch), at, changedIn, id, tombstonesFrom } }
}
