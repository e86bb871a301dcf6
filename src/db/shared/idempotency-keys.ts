import type { Idempotency } from '../../domain/shared/idempotency.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import type { ParametersOf, Placeholders, Row, Values } from '../statements/parameters.ts'
import { retentionTime } from './retention.ts'
import { firstRow } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { idempotencyKeys } from '../schema/tables.ts'

/** The responses that are stored under Idempotency-Keys. */

const { created_at } = idempotencyKeys

/** Retention of stored responses. */
const lifetime = sql.raw(`interval '24 hours'`)

const keyParameters = { principal_id: 'uuid', operation: 'text', key: 'text' } as const
const storedColumns = { fingerprint: 'text', resource_id: 'text', body: 'text' } as const

/** A stored response: the id of the created resource, and the JSON text. */
export type StoredResponse = Row<typeof storedColumns>

const isOfKey = (p: Placeholders<typeof keyParameters>): SQL =>
  sql`principal_id = ${p.principal_id} and operation = ${p.operation} and key = ${p.key}`

const unexpired = (p: Placeholders<typeof keyParameters>): SQL => sql`
  select fingerprint, resource_id::text, body from idempotency_keys
  where ${isOfKey(p)} and ${created_at} > now() - ${lifetime}`

const lookUp = statement('idempotency_keys.look_up', keyParameters, storedColumns, unexpired)

const valuesOf = ({ principalId, operation, key }: Idempotency): Values<typeof keyParameters> => ({
  principal_id: principalId,
  operation,
  key,
})

/** The response that is stored under a key; null if there is none. */
export const selectResponse = async (
  { db }: StatementContext,
  key: Idempotency,
): Promise<StoredResponse | null> => {
  return firstRow(await lookUp(db, valuesOf(key)))
}

const lock = statement(
  'idempotency_keys.lock',
  keyParameters,
  {},
  (p) => sql`
    select pg_advisory_xact_lock(hashtextextended(${p.principal_id}::text || ' ' || ${p.operation} || ' ' || ${p.key}, 0))::text as locked`,
)

/** Locks a key: a concurrent request with the same one waits. */
export const lockKey = async ({ db }: TransactionContext, key: Idempotency): Promise<void> =>
  void (await lock(db, valuesOf(key)))

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

/** Stores a response under a key that is locked. */
export const storeResponse = async (
  { db }: TransactionContext,
  key: Idempotency,
  { id, json }: { readonly id: string; readonly json: string },
): Promise<void> =>
  void (await store(db, { ...valuesOf(key), fingerprint: key.fingerprint, resource_id: id, body: json }))

/** Deletes stored responses that have expired. */
export const removeExpiredKeys = deletionInBatches('idempotency_keys.delete_expired', {
  parameters: {},
  table: idempotencyKeys,
  condition: () => sql`${created_at} <= ${retentionTime} - ${lifetime}`,
})
