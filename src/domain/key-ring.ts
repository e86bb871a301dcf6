import type { KeyObject } from 'node:crypto'

/** The keys of one purpose, which overlap while the secret behind them is replaced. */
export interface KeyRing {
  /** Signs, seals and derives what is new. */
  readonly active: KeyObject
  /** Verify, open and repeat what exists. The active key comes first. */
  readonly verification: readonly KeyObject[]
}
