import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import type { KeyRing } from '../domain/shared/key-ring.ts'

/** The configured secrets, at least 32 bytes each. The active one signs; all of them verify. */
export type Secrets = readonly [active: Buffer, ...earlier: Buffer[]]

export type KeyPurpose =
  | 'cursor'
  | 'idempotency'
  | 'sign-in'
  | 'second-factor'
  | 'refresh'
  | 'idempotent-answer'
  | 'attachment-link'
  | 'export-link'
  | 'webhook'
  | 'oidc'

/**
 * Derives a 32-byte key for one purpose from each secret by HKDF-SHA256 (RFC 5869). Keys of different purposes reveal nothing
 * about each other or the secret. They are key objects, because importing the bytes each time takes longer than an HMAC.
 */
export const deriveKeys = ([active, ...earlier]: Secrets, purpose: KeyPurpose): KeyRing => {
  const derive = (secret: Buffer): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', `taskwright ${purpose}`, 32)))
  const key = derive(active)
  return { active: key, verification: [key, ...earlier.map(derive)] }
}
