import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import type { KeyRing } from '../domain/key-ring.ts'

/** The secrets in use, at least 32 bytes each: the first one signs, and all of them verify. */
export type Secrets = readonly [newest: Buffer, ...earlier: Buffer[]]

export type KeyPurpose =
  'cursor' | 'idempotency' | 'sign-in' | 'second-factor' | 'refresh' | 'idempotent-answer'

/**
 * 32-byte keys for one purpose, derived from each secret by HKDF-SHA256 (RFC 5869). Keys of different purposes tell
 * nothing about each other or about the secret. They are key objects: made of bytes anew, a key takes longer than an HMAC.
 */
export const deriveKeys = ([newest, ...earlier]: Secrets, purpose: KeyPurpose): KeyRing => {
  const derive = (secret: Buffer): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', `taskwright ${purpose}`, 32)))
  const key = derive(newest)
  return { newest: key, all: [key, ...earlier.map(derive)] }
}
