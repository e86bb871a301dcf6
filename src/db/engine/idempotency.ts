import { columnsOf, insertion } from '../schema/columns.ts'
import { deletionInBatches } from './batches.ts'
import { retentionTime } from './retention.ts'
import type { ContextPlaceholders, OpContext } from './context.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { statement } from './statement.ts'

const { created_at } = columnsOf<'idempotency_keys'>(sql.raw('idempotency_keys'))

/** Retention of stored responses. */
const lifetime = sql.raw(`interval '24 hours'`)

/** The Idempotency-Key was used with a different request. */
export class IdempotencyKeyReused extends Error {
  override readonly name = 'IdempotencyKeyReused'
}

/** SQL that stores the row `(id, json)` of `created` as the response to the request's Idempotency-Key, if it has one. */
export const storeResponse = (p: ContextPlaceholders, created: SQL): SQL => {
  const key = insertion<'idempotency_keys'>({
    principal_id: p.caller,
    operation: p.idempotency_operation,
    key: p.idempotency_key,
    fingerprint: p.idempotency_fingerprint,
    resource_id: sql`id`,
    body: sql`json`,
  })
  return sql`
    insert into idempotency_keys (${key.columns}) select ${key.values}
    from ${created} where ${p.idempotency_key} is not null and json is not null`
}

const selectStored = statement(
  'idempotency_keys.select',
  { principal_id: 'uuid', operation: 'text', key: 'text' },
  { fingerprint: 'text', resource_id: 'text', body: 'text' },
  (p) => sql`
    with expired as (
      delete from idempotency_keys
      where principal_id = ${p.principal_id} and operation = ${p.operation} and key = ${p.key}
        and ${created_at} <= now() - ${lifetime}
    )
    select fingerprint, resource_id::text, body from idempotency_keys
    where principal_id = ${p.principal_id} and operation = ${p.operation} and key = ${p.key}
      and ${created_at} > now() - ${lifetime}`,
)

/** The stored response to an earlier request with the same key. */
export interface StoredResponse {
  readonly id: string
  readonly json: string
  readonly replayed: true
}

/** @throws IdempotencyKeyReused when the key was used with a different request */
export const findStoredResponse = async ({ db, idempotency }: OpContext): Promise<StoredResponse | null> => {
  if (idempotency === null) return null
  const { principalId, operation, key, isFingerprint } = idempotency
  const [stored] = await selectStored(db, { principal_id: principalId, operation, key })
  if (stored === undefined) return null
  if (!isFingerprint(stored.fingerprint)) throw new IdempotencyKeyReused()
  return { id: stored.resource_id, json: stored.body, replayed: true }
}

/** Deletes stored responses that have expired. */
export const removeExpiredKeys = deletionInBatches('idempotency_keys.delete_expired', {
  parameters: {},
  table: 'idempotency_keys',
  condition: () => sql`${created_at} <= ${retentionTime} - ${lifetime}`,
})
