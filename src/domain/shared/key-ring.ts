import type { KeyObject } from 'node:crypto'

/** The keys of one purpose. There are several while a secret is rotated. */
export interface KeyRing {
  /** Signs, seals and derives new values. */
  readonly active: KeyObject
  /** Verify, open and rederive existing values. The active key comes first. */
  readonly verification: readonly KeyObject[]
}
