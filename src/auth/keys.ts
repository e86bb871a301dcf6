import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import type { KeyRing } from '../domain/key-ring.ts'

/** The secrets in use, at least 32 bytes each: the active one signs, all of them verify. */
export type Secrets = readonly [active: Buffer, ...earlier: Buffer[]]

export type KeyPurpose =
  'cursor' | 'idempotency' | 'sign-in' | 'second-factor' | 'refresh' | 'idempotent-answer'

/**
 * 32-byte keys for one purpose, derived from each secret by HKDF-SHA256 (RFC 5869). Keys of different purposes reveal
 * nothing about each other or the secret. They are key objects, since importing the bytes each time takes longer than an HMAC.
 */
export const deriveKeys = ([active, ...earlier]: Secrets, purpose: KeyPurpose): KeyRing => {
  const derive = (secret: Buffer): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', `taskwright ${purpose}`, 32)))
  const key = derive(active)
  return { active: key, verification: [key, ...earlier.map(derive)] }
}
