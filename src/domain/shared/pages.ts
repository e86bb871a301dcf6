import type { Position } from './cursors.ts'

/** Pages of lists. */

/** Default number of items per page. */
export const defaultLimit = 50

/** Maximum number of items per page, as in the contract. */
export const maxLimit = 200

/** The pagination parameters, common to all lists. */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
  /** The decoded cursor; null for the first page. */
  readonly position: Position | null
  readonly includeTotal: boolean
}

/** A page. `items` is a JSON array as text; `next` and `previous` are null where there is no such page. */
export interface Page {
  readonly items: string
  readonly next: Position | null
  readonly previous: Position | null
  readonly total: number | null
}
