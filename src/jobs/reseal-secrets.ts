import { open, seal } from '../auth/seal.ts'
import type { Database } from '../db/engine/client.ts'
import { selectSecondFactors, updateSeal } from '../db/accounts/second-factors.ts'
import { selectWebhookSecrets, updateWebhookSeals } from '../db/activity/webhooks.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'
import { nilId } from '../domain/shared/nil-id.ts'

/** Seals all secrets with the active keys, so that earlier keys can be dropped. */
export const resealSecrets = async (
  db: Database,
  { secondFactorKeys, webhookKeys }: { readonly secondFactorKeys: KeyRing; readonly webhookKeys: KeyRing },
  stop: AbortSignal,
): Promise<void> => {
  const factorsAfter = (page: SecretsPage) => selectSecondFactors(db, page)
  for await (const { userId, secret } of rowsOf(factorsAfter, ({ userId }) => userId, stop)) {
    const resealed = reseal(secondFactorKeys, secret, userId)
    if (resealed !== null) await updateSeal(db, { user_id: userId, old_secret: secret, new_secret: resealed })
  }
  const webhooksAfter = (page: SecretsPage) => selectWebhookSecrets(db, page)
  for await (const { id, secret, previousSecret } of rowsOf(webhooksAfter, ({ id }) => id, stop)) {
    const [resealed, resealedPrevious] = [secret, previousSecret].map((one) => reseal(webhookKeys, one, id))
    if (resealed || resealedPrevious)
      await updateWebhookSeals(db, {
        id,
        old_secret: secret,
        new_secret: resealed ?? secret,
        new_previous_secret: resealedPrevious ?? previousSecret,
      })
  }
}

/** Rows after an id, in the order of their ids. */
interface SecretsPage {
  readonly after: string
  readonly limit: number
}

/** Rows per query. */
const limit = 500

/** All rows, a page at a time; ends early between two pages when `stop` is aborted. */
async function* rowsOf<Row>(
  select: (page: SecretsPage) => Promise<readonly Row[]>,
  idOf: (row: Row) => string,
  stop: AbortSignal,
): AsyncGenerator<Row> {
  let after = nilId
  while (!stop.aborted) {
    const rows = await select({ after, limit })
    yield* rows
    const last = rows.at(-1)
    if (last === undefined) return
    after = idOf(last)
  }
}

/** Null if the active key has already sealed the secret, or if no key opens it. */
const reseal = (keys: KeyRing, sealed: Buffer, context: string): Buffer | null => {
  const opened = open(keys, sealed, context)
  return opened === null || opened.isActive ? null : seal(keys, opened.plaintext, context)
}
