import { open, seal } from '../auth/seal.ts'
import type { Database } from '../db/engine/client.ts'
import { selectSecondFactors, updateSeal } from '../db/second-factors.ts'
import { selectWebhookSecrets, updateWebhookSeals } from '../db/webhooks.ts'
import type { KeyRing } from '../domain/key-ring.ts'

/** Rows per query. */
const limit = 500
const firstId = '00000000-0000-0000-0000-000000000000'

/** Seals all secrets with the active keys, so that earlier keys can be dropped. */
export const resealSecrets = async (
  db: Database,
  { secondFactorKeys, webhookKeys }: { readonly secondFactorKeys: KeyRing; readonly webhookKeys: KeyRing },
  stop: AbortSignal,
): Promise<void> => {
  for (let after: string | undefined = firstId; after !== undefined && !stop.aborted;) {
    const factors = await selectSecondFactors(db, { after, limit })
    for (const { userId, secret } of factors) {
      const resealed = reseal(secondFactorKeys, secret, userId)
      if (resealed !== null)
        await updateSeal(db, { user_id: userId, old_secret: secret, new_secret: resealed })
    }
    after = factors.at(-1)?.userId
  }
  for (let after: string | undefined = firstId; after !== undefined && !stop.aborted;) {
    const webhooks = await selectWebhookSecrets(db, { after, limit })
    for (const { id, secret, previousSecret } of webhooks) {
      const [resealed, resealedPrevious] = [secret, previousSecret].map((one) => reseal(webhookKeys, one, id))
      if (resealed || resealedPrevious)
        await updateWebhookSeals(db, {
          id,
          old_secret: secret,
          new_secret: resealed ?? secret,
          new_previous_secret: resealedPrevious ?? previousSecret,
        })
    }
    after = webhooks.at(-1)?.id
  }
}

/** Null if the active key has sealed it already, or no key opens it. */
const reseal = (keys: KeyRing, sealed: Buffer, context: string): Buffer | null => {
  const opened = open(keys, sealed, context)
  return opened === null || opened.isActive ? null : seal(keys, opened.plaintext, context)
}
