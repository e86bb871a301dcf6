import { type CursorScope, openCursor, sealCursor } from './cursors.ts'
import type { KeyRing } from './key-ring.ts'
import type { Principal, Role } from './permissions.ts'

/** How far somebody has read the changes to tasks. Transactions are told as decimal digits. */
export interface ChangePosition {
  /** That of the history, when it was read. */
  readonly epoch: number
  /** The transaction and the task that were read last. */
  readonly changedIn: string
  readonly id: string
  /** Departures before this transaction are known, or are of tasks that never were. */
  readonly departuresFrom: string
}

const scopeOf = ({ userId }: Principal): CursorScope => ({
  principalId: userId,
  list: '/tasks/changes',
  filter: null,
})

/** Makes the opaque cursor for the changes behind `position`. */
export const encodeChangeCursor = (keys: KeyRing, principal: Principal, position: ChangePosition): string => {
  const { epoch, changedIn, id, departuresFrom } = position
  return sealCursor(
    keys,
    scopeOf(principal),
    [principal.role, epoch, changedIn, id, departuresFrom].join(' '),
  )
}

/** Reads such a cursor with the role that it was made for; null when it was not made by this service for this caller. */
export const decodeChangeCursor = (
  keys: KeyRing,
  principal: Principal,
  cursor: string,
): { readonly role: Role; readonly position: ChangePosition } | null => {
  const [role, epoch, changedIn, id, departuresFrom] =
    openCursor(keys, scopeOf(principal), cursor)?.split(' ') ?? []
  if (role !== 'member' && role !== 'admin') return null
  if (changedIn === undefined || id === undefined || departuresFrom === undefined) return null
  return { role, position: { epoch: Number(epoch), changedIn, id, departuresFrom } }
}
