import { deletionInBatches } from './batches.ts'
import type { Database } from './client.ts'
import { type SQL, sql } from './drizzle.ts'
import { DatabaseUnavailable } from './errors.ts'
import { onlyRow, type Placeholders, statement } from './statement.ts'

/** How long an answer can be replayed. */
const lifetime = sql.raw(`interval '24 hours'`)

/** A creation that its client may repeat: the key, and what tells its request from another's under the same key. */
export interface Idempotency {
  readonly principalId: string
  readonly operation: string
  readonly key: string
  /** Base64url of an HMAC, so that it tells nothing about a password in the body. */
  readonly fingerprint: string
  /** Whether a fingerprint that was kept, perhaps under an earlier secret, is of this very request. */
  readonly isFingerprint: (kept: string) => boolean
}

/** What was created: its id, its JSON text, and whether that is an earlier request's answer. */
export interface Created {
  readonly id: string
  readonly json: string
  readonly replayed: boolean
}

/** The key was used with another request. */
export class IdempotencyKeyReused extends Error {
  override readonly name = 'IdempotencyKeyReused'
}

/** Parameters of a statement that creates; `idempotencyValues` gives their values. */
export const idempotencyParameters = {
  idempotency_operation: 'text',
  idempotency_key: 'text?',
  idempotency_fingerprint: 'text',
} as const

/** Values for `idempotencyParameters`; without a key the statement keeps nothing. */
export const idempotencyValues = (idempotency: Idempotency | null) => ({
  idempotency_operation: idempotency?.operation ?? '',
  idempotency_key: idempotency?.key ?? null,
  idempotency_fingerprint: idempotency?.fingerprint ?? '',
})

/**
 * A part of a creating statement that keeps its answer: `created` names its rows with `id` and `json`. A key that is
 * there already breaks the primary key and so undoes the whole statement.
 */
export const keepAnswer = (
  p: Placeholders<typeof idempotencyParameters> & { readonly caller: SQL },
  created: SQL,
): SQL => sql`
  insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body)
  select ${p.caller}, ${p.idempotency_operation}, ${p.idempotency_key}, ${p.idempotency_fingerprint}, id, json
  from ${created} where ${p.idempotency_key} is not null and json is not null`

const selectKept = statement(
  { principal_id: 'uuid', operation: 'text', key: 'text' },
  { fingerprint: 'text', resource_id: 'text', body: 'text' },
  (p) => sql`
    with expired as (
      delete from idempotency_keys
      where principal_id = ${p.principal_id} and operation = ${p.operation} and key = ${p.key}
        and created_at <= now() - ${lifetime}
    )
    select fingerprint, resource_id::text, body from idempotency_keys
    where principal_id = ${p.principal_id} and operation = ${p.operation} and key = ${p.key}
      and created_at > now() - ${lifetime}`,
)

const replay = async (db: Database, idempotency: Idempotency): Promise<Created | null> => {
  const { principalId, operation, key, isFingerprint } = idempotency
  const kept = onlyRow(await selectKept(db, { principal_id: principalId, operation, key }))
  if (kept === null) return null
  if (!isFingerprint(kept.fingerprint)) throw new IdempotencyKeyReused()
  return { id: kept.resource_id, json: kept.body, replayed: true }
}

/**
 * Creates once per idempotency key. A repeat gets the first answer; so does one that ran beside the first, which the
 * unique constraints hold back until the first has ended.
 *
 * @throws IdempotencyKeyReused when the key was used with another request
 */
export const createOnce = async <T>(
  db: Database,
  idempotency: Idempotency | null,
  create: () => Promise<T>,
  replayed: (earlier: Created) => T,
): Promise<T> => {
  if (idempotency === null) return create()
  const earlier = await replay(db, idempotency)
  if (earlier !== null) return replayed(earlier)
  try {
    return await create()
  } catch (error) {
    // Whatever the loser of a race met first, a constraint or a quota, the winner's answer is its answer too.
    const winner = error instanceof DatabaseUnavailable ? null : await replay(db, idempotency)
    if (winner === null) throw error
    return replayed(winner)
  }
}

/** Forgets answers that can no longer be replayed. */
export const removeExpiredKeys = deletionInBatches(
  {},
  'idempotency_keys',
  () => sql`created_at <= now() - ${lifetime}`,
)
