import { hkdfSync } from 'node:crypto'

/**
 * A 32-byte key for one purpose, derived from the service's secret by HKDF-SHA256 (RFC 5869). Keys of different
 * purposes tell nothing about each other or about the secret.
 */
export function deriveKey(secret: Buffer, purpose: 'cursor' | 'idempotency'): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', `taskwright ${purpose}`, 32))
}
