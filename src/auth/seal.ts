import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from 'node:crypto'
import type { KeyRing } from '../domain/shared/key-ring.ts'

const algorithm = 'aes-256-gcm'
const version = 1
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + nonceBytes

/**
 * Encrypts a small secret for storage with the active key: version byte, nonce, ciphertext and tag. The context, such as the
 * owner's id, is authenticated but not stored, so a sealed secret cannot be moved to another owner.
 */
export const seal = ({ active }: KeyRing, plaintext: Buffer, context: string): Buffer => {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, active, nonce).setAAD(Buffer.from(context))
  const ciphertext = [cipher.update(plaintext), cipher.final()]
  return Buffer.concat([Buffer.of(version), nonce, ...ciphertext, cipher.getAuthTag()])
}

/**
 * Decrypts a secret that any key of the ring sealed for the same context; null on failure. If `isActive` is false, the caller
 * should seal the secret again, because an earlier key sealed it and will be dropped.
 */
export const open = (
  { active, verification }: KeyRing,
  sealed: Buffer,
  context: string,
): { plaintext: Buffer; isActive: boolean } | null => {
  if (sealed[0] !== version || sealed.length < headBytes + tagBytes) return null
  for (const key of verification) {
    const plaintext = decrypt(key, sealed, context)
    if (plaintext !== null) return { plaintext, isActive: key.equals(active) }
  }
  return null
}

const decrypt = (key: KeyObject, sealed: Buffer, context: string): Buffer | null => {
  const decipher = createDecipheriv(algorithm, key, sealed.subarray(1, headBytes), {
    authTagLength: tagBytes,
  })
    .setAAD(Buffer.from(context))
    .setAuthTag(sealed.subarray(-tagBytes))
  const plaintext = decipher.update(sealed.subarray(headBytes, -tagBytes))
  try {
    // Throws if the tag does not match.
    return Buffer.concat([plaintext, decipher.final()])
  } catch {
    return null
  }
}
