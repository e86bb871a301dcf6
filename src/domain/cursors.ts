import { createHmac, timingSafeEqual } from 'node:crypto'
import type { KeyRing } from './key-ring.ts'

/** Where a page ended: the sort key and id of its last item, newest first. */
export interface Position {
  readonly createdAt: string
  readonly id: string
}

/** What a cursor belongs to: it is refused for another caller, list or filter. */
export interface CursorScope {
  readonly principalId: string
  readonly list: string
  readonly filter: unknown
}

const version = 1
const macBytes = 16
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const seal = (key: Buffer, scope: CursorScope, payload: string): Buffer =>
  createHmac('sha256', key)
    .update(JSON.stringify([version, scope.principalId, scope.list, scope.filter, payload]))
    .digest()
    .subarray(0, macBytes)

/** Makes an opaque cursor: version byte, MAC and payload, in base64url. */
export const sealCursor = (keys: KeyRing, scope: CursorScope, payload: string): string =>
  Buffer.concat([Buffer.of(version), seal(keys.newest, scope, payload), Buffer.from(payload)]).toString(
    'base64url',
  )

/** Reads a cursor's payload; null when it was not made by this service for this very scope. */
export const openCursor = (keys: KeyRing, scope: CursorScope, cursor: string): string | null => {
  const bytes = Buffer.from(cursor, 'base64url')
  if (bytes.toString('base64url') !== cursor || bytes[0] !== version || bytes.length <= 1 + macBytes)
    return null
  const payload = bytes.subarray(1 + macBytes).toString()
  const mac = bytes.subarray(1, 1 + macBytes)
  return keys.all.some((key) => timingSafeEqual(mac, seal(key, scope, payload))) ? payload : null
}

/** Makes the opaque cursor that continues after `position`. */
export const encodeCursor = (keys: KeyRing, scope: CursorScope, { createdAt, id }: Position): string =>
  sealCursor(keys, scope, `${createdAt} ${id}`)

/** Reads such a cursor; null when it was not made by this service for this very scope. */
export const decodeCursor = (keys: KeyRing, scope: CursorScope, cursor: string): Position | null => {
  const [createdAt, id] = openCursor(keys, scope, cursor)?.split(' ') ?? []
  if (createdAt === undefined || id === undefined || !instant.test(createdAt) || !uuid.test(id)) return null
  return { createdAt, id }
}
