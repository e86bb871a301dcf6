import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import { isInstant } from './dates.ts'
import type { KeyRing } from './key-ring.ts'

/** A position before or after an item of a list. */
export interface Position {
  readonly direction: 'after' | 'before'
  /** The sort keys of the item, as text; null for a missing value. */
  readonly values: readonly (string | null)[]
  readonly id: string
}

export interface Cursor {
  readonly position: Position
  /** The time of the request for the first page (RFC 3339), if the filter depends on it. */
  readonly asOf: string | null
}

/** The scope of a cursor. It is refused for another caller, list, filter or order. */
export interface CursorScope {
  readonly principalId: string
  readonly list: string
  readonly filter: unknown
}

const version = 2
const macBytes = 16

const seal = (key: KeyObject, scope: CursorScope, payload: string): Buffer =>
  createHmac('sha256', key)
    .update(JSON.stringify([version, scope.principalId, scope.list, scope.filter, payload]))
    .digest()
    .subarray(0, macBytes)

/** Seals a payload as an opaque cursor: version byte, MAC and payload, in base64url. */
export const sealCursor = (keys: KeyRing, scope: CursorScope, payload: string): string =>
  Buffer.concat([Buffer.of(version), seal(keys.active, scope, payload), Buffer.from(payload)]).toString(
    'base64url',
  )

/** Opens a cursor; null if it was not sealed for this scope. */
export const openCursor = (keys: KeyRing, scope: CursorScope, cursor: string): string | null => {
  const bytes = Buffer.from(cursor, 'base64url')
  if (bytes.toString('base64url') !== cursor || bytes[0] !== version || bytes.length <= 1 + macBytes)
    return null
  const payload = bytes.subarray(1 + macBytes).toString()
  const mac = bytes.subarray(1, 1 + macBytes)
  return keys.verification.some((key) => timingSafeEqual(mac, seal(key, scope, payload))) ? payload : null
}

/** Encodes a position and the time of its filter. */
export const encodeCursor = (
  keys: KeyRing,
  scope: CursorScope,
  { asOf, position: { direction, values, id } }: Cursor,
): string => sealCursor(keys, scope, JSON.stringify([asOf, direction, id, ...values]))

/** Decodes such a cursor; null if it was not sealed for this scope. */
export const decodeCursor = (keys: KeyRing, scope: CursorScope, cursor: string): Cursor | null => {
  const payload = openCursor(keys, scope, cursor)
  return payload === null ? null : parseCursor(JSON.parse(payload))
}

const parseCursor = (payload: unknown): Cursor | null => {
  if (!Array.isArray(payload)) return null
  const [asOf, direction, id, ...values] = payload as unknown[]
  if (asOf !== null && (typeof asOf !== 'string' || !isInstant(asOf))) return null
  if (typeof id !== 'string') return null
  if (direction !== 'after' && direction !== 'before') return null
  return values.every((value) => value === null || typeof value === 'string')
    ? { asOf, position: { direction, values, id } }
    : null
}
