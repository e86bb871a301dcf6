import { createHmac, randomBytes } from 'node:crypto'
import { open, seal } from '../auth/seal.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'

/** Secrets and signatures of webhooks, as specified by Standard Webhooks 1.0. */

const secretBytes = 32

/** A new secret, in the form for its owner and the form to store. */
export interface NewSecret {
  readonly text: string
  /** The form to store for a webhook. */
  readonly sealFor: (webhookId: string) => Buffer
}

export const newSecret = (keys: KeyRing): NewSecret => {
  const secret = randomBytes(secretBytes)
  return {
    text: `whsec_${secret.toString('base64')}`,
    sealFor: (webhookId) => seal(keys, secret, webhookId),
  }
}

/** The signed content of a message. */
export interface SignedContent {
  readonly id: string
  /** Seconds since 1970. */
  readonly timestamp: number
  readonly body: string
}

/**
 * The value of `webhook-signature`: one signature per secret. There are two secrets while one is being rotated.
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
