import type { KeyObject } from 'node:crypto'

/**
 * The keys of one purpose while the secret behind them is being replaced: the newest is used for what is made now, and
 * each of them, the newest included, for what was made before.
 */
export interface KeyRing {
  readonly newest: KeyObject
  /** The newest comes first. */
  readonly all: readonly KeyObject[]
}
