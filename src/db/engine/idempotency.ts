import type { Principal } from '../../domain/permissions.ts'
import { deletionInBatches } from './batches.ts'
import { builtStatement } from './built-statement.ts'
import { retentionTime } from './retention.ts'
import { type Idempotency, type OpContext, transaction, type TransactionContext } from './context.ts'
import { lockCaller } from './callers.ts'
import { newId } from './ids.ts'
import type { ParametersOf, Placeholders, Row, Values } from './parameters.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { idempotencyKeys } from '../schema/tables.ts'
import { statement } from './statement.ts'

const { created_at } = idempotencyKeys

/** Retention of stored responses. */
const lifetime = sql.raw(`interval '24 hours'`)

/** The Idempotency-Key was used with a different request. */
export class IdempotencyKeyReused extends Error {
  override readonly name = 'IdempotencyKeyReused'
}

const keyParameters = { principal_id: 'uuid', operation: 'text', key: 'text' } as const
const storedColumns = { fingerprint: 'text', resource_id: 'text', body: 'text' } as const

const isOfKey = (p: Placeholders<typeof keyParameters>): SQL =>
  sql`principal_id = ${p.principal_id} and operation = ${p.operation} and key = ${p.key}`

const unexpired = (p: Placeholders<typeof keyParameters>): SQL => sql`
  select fingerprint, resource_id::text, body from idempotency_keys
  where ${isOfKey(p)} and ${created_at} > now() - ${lifetime}`

const lookUp = statement('idempotency_keys.look_up', keyParameters, storedColumns, unexpired)

/** A created resource: its id and JSON text. `replayed`: the response to an earlier request with the same key. */
export interface Created {
  readonly id: string
  readonly json: string
  readonly replayed: boolean
}

/** The stored response to an earlier request with the same key. */
export interface StoredResponse extends Created {
  readonly replayed: true
}

const valuesOf = ({ principalId, operation, key }: Idempotency): Values<typeof keyParameters> => ({
  principal_id: principalId,
  operation,
  key,
})

/** @throws IdempotencyKeyReused when the key was used with a different request */
const readStored = (
  { isFingerprint }: Idempotency,
  stored: Row<typeof storedColumns> | undefined,
): StoredResponse | null => {
  if (stored === undefined) return null
  if (!isFingerprint(stored.fingerprint)) throw new IdempotencyKeyReused()
  return { id: stored.resource_id, json: stored.body, replayed: true }
}

/**
 * The stored response to an earlier request with the same key. For a request whose work before its transaction is costly.
 *
 * @throws IdempotencyKeyReused when the key was used with a different request
 */
export const findReplay = async ({ db, idempotency }: OpContext): Promise<StoredResponse | null> => {
  if (idempotency === null) return null
  const [row] = await lookUp(db, valuesOf(idempotency))
  return readStored(idempotency, row)
}

const lockKey = statement(
  'idempotency_keys.lock',
  keyParameters,
  {},
  (p) => sql`
    select pg_advisory_xact_lock(hashtextextended(${p.principal_id}::text || ' ' || ${p.operation} || ' ' || ${p.key}, 0))::text as locked`,
)

// Only a response that has expired is replaced: under the lock of the key, no other was found.
const store = builtStatement(
  'idempotency_keys.store',
  { ...keyParameters, fingerprint: 'text', resource_id: 'uuid', body: 'text' } satisfies ParametersOf<
    typeof idempotencyKeys
  >,
  (db, { principal_id, operation, key, ...response }) =>
    db
      .insert(idempotencyKeys)
      .values({ principal_id, operation, key, ...response })
      .onConflictDoUpdate({
        target: [idempotencyKeys.principal_id, idempotencyKeys.operation, idempotencyKeys.key],
        set: { ...response, created_at: sql`excluded.created_at` },
      }),
)

/** The response of a request. */
interface Response {
  readonly json: string
  /** What is stored for a replay, if it differs: a secret is sealed in it. */
  readonly replay?: string
}

/**
 * Runs `work`, which creates a resource, as a transaction, once per Idempotency-Key: its response is stored with it. A repeated
 * request gets that response, and a concurrent one waits for it. `id` is that of the resource. The caller is locked first.
 *
 * @throws CallerGone when the caller was disabled or deleted since they were authenticated
 * @throws IdempotencyKeyReused when the key was used with a different request
 */
export const idempotent = <P extends Principal>(
  ctx: OpContext<P>,
  work: (tx: TransactionContext<P>, id: string) => Promise<Response>,
  id: string = newId(),
): Promise<Created> => {
  const { idempotency } = ctx
  return transaction<P, Created>(ctx, async (tx) => {
    if (idempotency === null) {
      const [, { json }] = await Promise.all([lockCaller(tx), work(tx, id)])
      return { id, json, replayed: false }
    }
    const key = valuesOf(idempotency)
    const [, , [row]] = await Promise.all([lockKey(tx.db, key), lockCaller(tx), lookUp(tx.db, key)])
    const stored = readStored(idempotency, row)
    if (stored !== null) return stored
    const { json, replay = json } = await work(tx, id)
    // Not sent with the commit: the driver repeats a statement whose plan is outdated, which could then be after a rollback.
    await store(tx.db, { ...key, fingerprint: idempotency.fingerprint, resource_id: id, body: replay })
    return { id, json, replayed: false }
  })
}

/** Deletes stored responses that have expired. */
export const removeExpiredKeys = deletionInBatches('idempotency_keys.delete_expired', {
  parameters: {},
  table: idempotencyKeys,
  condition: () => sql`${created_at} <= ${retentionTime} - ${lifetime}`,
})
