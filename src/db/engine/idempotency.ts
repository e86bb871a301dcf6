import { columnsOf, insertion } from '../schema/columns.ts'
import { deletionInBatches } from './batches.ts'
import type { ContextPlaceholders, OpContext } from './context.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import { DatabaseUnavailable } from './errors.ts'
import { newId } from './ids.ts'
import type { Columns, Parameters, Placeholders, Row, Values } from './parameters.ts'
import { query, statement, type StatementName } from './statement.ts'

const { created_at } = columnsOf<'idempotency_keys'>(sql.raw('idempotency_keys'))

/** How long an answer can be replayed. */
const lifetime = sql.raw(`interval '24 hours'`)

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

/** The parts of a statement that creates a resource. */
interface CreationParts {
  /** Common table expressions, one of which is `created` with the columns `id` and `json`; no row when it was refused. */
  readonly parts: SQL
  readonly select: SQL
}

/** What became of a creation: the answer to an earlier request with the same Idempotency-Key, or the row of the statement. */
export type CreationResult<C extends Columns> =
  | (Created & { readonly replayed: true })
  | { readonly replayed: false; readonly id: string; readonly row: Row<C> | null }

/**
 * A query that creates a resource, once per Idempotency-Key: its statement also stores the answer, and a key that exists
 * breaks the primary key and so undoes the whole statement. A repeat gets the first answer; so does one that ran
 * concurrently, which the unique constraints hold back until the first has ended. `prepare` is called with the new row's id,
 * and only when there is something to create.
 *
 * @throws IdempotencyKeyReused when the key was used for another request
 */
export const creation = <P extends Parameters, C extends Columns>(
  name: StatementName,
  parameters: P,
  columns: C,
  build: (p: Placeholders<P & { id: 'uuid' }> & ContextPlaceholders) => CreationParts,
): ((
  ctx: OpContext,
  prepare: (id: string) => Promise<Values<P>> | Values<P>,
) => Promise<CreationResult<C>>) => {
  const insert = query(name, { ...parameters, id: 'uuid' as const }, columns, (p) => {
    const { parts, select } = build(p)
    return sql`with ${parts}, kept as (${storeAnswer(p)}) ${select}`
  })
  return async (ctx, prepare) => {
    const earlier = await replay(ctx)
    if (earlier !== null) return earlier
    try {
      const id = newId()
      const rows = await insert(ctx, { ...(await prepare(id)), id } as Values<P & { id: 'uuid' }>)
      const row = rows[0] ?? null
      // The loser of a race gets the winner's answer, whether a quota refuses it or a constraint.
      const winner = isRefused(row) ? await replay(ctx) : null
      return winner ?? { replayed: false, id, row }
    } catch (error) {
      const winner = error instanceof DatabaseUnavailable ? null : await replay(ctx)
      if (winner === null) throw error
      return winner
    }
  }
}

/** Whether a statement created nothing. */
const isRefused = (row: object | null): boolean => row === null || ('json' in row && row.json === null)

/** The answer to a creation whose statement always answers with a row. */
export const expectCreated = (result: CreationResult<{ json: 'text' }>): Created => {
  if (result.replayed) return result
  if (result.row === null) throw new Error('The creation did not answer with a row')
  return { id: result.id, json: result.row.json, replayed: false }
}

const storeAnswer = (p: ContextPlaceholders): SQL => {
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
    from created where ${p.idempotency_key} is not null and json is not null`
}

const selectKept = statement(
  'idempotency.select_kept',
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

const replay = async ({
  db,
  idempotency,
}: OpContext): Promise<(Created & { readonly replayed: true }) | null> => {
  if (idempotency === null) return null
  const { principalId, operation, key, isFingerprint } = idempotency
  const [stored] = await selectKept(db, { principal_id: principalId, operation, key })
  if (stored === undefined) return null
  if (!isFingerprint(stored.fingerprint)) throw new IdempotencyKeyReused()
  return { id: stored.resource_id, json: stored.body, replayed: true }
}

/** Forgets answers that can no longer be replayed. */
export const removeExpiredKeys = deletionInBatches('idempotency_keys.delete_expired', {
  parameters: {},
  table: 'idempotency_keys',
  condition: () => sql`${created_at} <= now() - ${lifetime}`,
})
