import { createHmac, randomBytes } from 'node:crypto'
import { open, seal } from '../auth/seal.ts'
import type { KeyRing } from '../domain/key-ring.ts'

/** Secrets of webhooks, and signatures with them, as Standard Webhooks 1.0 has them. */

const secretBytes = 32

/** A new secret, as its owner sees it and as it is stored. */
export interface NewSecret {
  readonly text: string
  /** Seals it for the webhook. */
  readonly sealFor: (webhookId: string) => Buffer
}

export const newSecret = (keys: KeyRing): NewSecret => {
  const secret = randomBytes(secretBytes)
  return {
    text: `whsec_${secret.toString('base64')}`,
    sealFor: (webhookId) => seal(keys, secret, webhookId),
  }
}

/** A message as it is signed. */
export interface SignedContent {
  readonly id: string
  /** Seconds since 1970. */
  readonly timestamp: number
  readonly body: string
}

/**
 * The value of `webhook-signature`: a signature with each secret.
 *
 * @throws Error when no key opens a secret
 */
export const signaturesOf = (
  keys: KeyRing,
  webhookId: string,
  sealedSecrets: readonly Buffer[],
  { id, timestamp, body }: SignedContent,
): string =>
  sealedSecrets
    .map((sealed) => {
      const opened = open(keys, sealed, webhookId)
      if (opened === null) throw new Error('No key opens the secret of a webhook')
      const hmac = createHmac('sha256', opened.plaintext).update(`${id}.${timestamp}.${body}`)
      return `v1,${hmac.digest('base64')}`
    })
    .join(' ')
