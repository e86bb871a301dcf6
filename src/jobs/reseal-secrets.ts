import { open, seal } from '../auth/seal.ts'
import type { Database } from '../db/engine/client.ts'
import { selectSecondFactors, updateSeal } from '../db/second-factors.ts'
import type { KeyRing } from '../domain/key-ring.ts'

/** Rows per query. */
const limit = 500
const firstId = '00000000-0000-0000-0000-000000000000'

/** Seals the secrets of all second factors with the active key, so that earlier keys can be dropped. */
export const resealSecrets = async (db: Database, keys: KeyRing, stop: AbortSignal): Promise<void> => {
  for (let after: string | undefined = firstId; after !== undefined && !stop.aborted;) {
    const factors = await selectSecondFactors(db, { after, limit })
    for (const { userId, secret } of factors) {
      const opened = open(keys, secret, userId)
      if (opened === null || opened.isActive) continue
      const resealed = seal(keys, opened.plaintext, userId)
      await updateSeal(db, { user_id: userId, old_secret: secret, new_secret: resealed })
    }
    after = factors.at(-1)?.userId
  }
}
