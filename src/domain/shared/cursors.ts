import { createHash, createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
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
  /** The filter and the order, by parameter. */
  readonly parameters: Readonly<Record<string, unknown>>
}

/** Why a cursor was refused: it was not issued by this service, or for another scope. */
export type CursorFault =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'other_caller' }
  | { readonly kind: 'other_list' }
  | { readonly kind: 'other_parameters'; readonly names: readonly string[] }

export type Opened<T> = { readonly value: T } | { readonly fault: CursorFault }

const version = 3
const macBytes = 16

const macOf = (key: KeyObject, content: Buffer): Buffer =>
  createHmac('sha256', key).update(Buffer.of(version)).update(content).digest().subarray(0, macBytes)

/** Short enough for a cursor, long enough to tell values apart. It need not hide them: the client sent them itself. */
const digest = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest().subarray(0, 6).toString('base64url')

/** Digests of a scope. They are shorter than its values, and still show which parameters differ. */
type ScopeDigests = readonly [caller: string, list: string, parameters: Readonly<Record<string, string>>]

const digestsOf = ({ principalId, list, parameters }: CursorScope): ScopeDigests => [
  digest(principalId),
  digest(list),
  Object.fromEntries(
    Object.entries(parameters)
      .map(([name, value]) => [name, digest(value)] as const)
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  ),
]

/** Seals a payload as an opaque cursor: version byte, MAC, and JSON of the scope's digests and the payload, in base64url. */
export const sealCursor = (keys: KeyRing, scope: CursorScope, payload: string): string => {
  const content = Buffer.from(JSON.stringify([...digestsOf(scope), payload]))
  return Buffer.concat([Buffer.of(version), macOf(keys.active, content), content]).toString('base64url')
}

/** Opens a cursor that was sealed for this scope. */
export const openCursor = (keys: KeyRing, scope: CursorScope, cursor: string): Opened<string> => {
  const content = authenticate(keys, cursor)
  if (content === null) return { fault: { kind: 'unknown' } }
  // The MAC guarantees the shape.
  const [caller, list, parameters, payload] = JSON.parse(content.toString()) as [...ScopeDigests, string]
  const fault = compareScopes([caller, list, parameters], digestsOf(scope))
  return fault === null ? { value: payload } : { fault }
}

const authenticate = (keys: KeyRing, cursor: string): Buffer | null => {
  const bytes = Buffer.from(cursor, 'base64url')
  if (bytes.toString('base64url') !== cursor || bytes[0] !== version || bytes.length <= 1 + macBytes)
    return null
  const mac = bytes.subarray(1, 1 + macBytes)
  const content = bytes.subarray(1 + macBytes)
  return keys.verification.some((key) => timingSafeEqual(mac, macOf(key, content))) ? content : null
}

const compareScopes = (issued: ScopeDigests, used: ScopeDigests): CursorFault | null => {
  if (issued[0] !== used[0]) return { kind: 'other_caller' }
  if (issued[1] !== used[1]) return { kind: 'other_list' }
  const names = Object.keys({ ...issued[2], ...used[2] }).filter((name) => issued[2][name] !== used[2][name])
  return names.length === 0 ? null : { kind: 'other_parameters', names: names.toSorted() }
}

/** Encodes a position and the time of its filter. */
export const encodeCursor = (
  keys: KeyRing,
  scope: CursorScope,
  { asOf, position: { direction, values, id } }: Cursor,
): string => sealCursor(keys, scope, JSON.stringify([asOf, direction, id, ...values]))

/** Decodes such a cursor. */
export const decodeCursor = (keys: KeyRing, scope: CursorScope, text: string): Opened<Cursor> => {
  const opened = openCursor(keys, scope, text)
  if ('fault' in opened) return opened
  const cursor = parseCursor(JSON.parse(opened.value))
  return cursor === null ? { fault: { kind: 'unknown' } } : { value: cursor }
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
