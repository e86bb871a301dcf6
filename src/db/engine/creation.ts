import { done, missing, type Outcome } from '../../domain/outcome.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { ContextPlaceholders, OpContext } from './context.ts'
import { DatabaseUnavailable } from './errors.ts'
import { type Created, findStoredResponse, type StoredResponse, storeResponse } from './idempotency.ts'
import { newId } from './ids.ts'
import type { Columns, Parameters, Placeholders, Row, Values } from './parameters.ts'
import { query, type StatementName } from './statement.ts'

/** The parts of a statement that creates a resource. */
interface CreationParts {
  /** Common table expressions, including `created (id, json)`. It has no row if the creation is refused. */
  readonly parts: SQL
  readonly select: SQL
}

/** The stored response to an earlier request with the same Idempotency-Key, or the row that the statement returned. */
export type CreationResult<C extends Columns> =
  StoredResponse | { readonly replayed: false; readonly id: string; readonly row: Row<C> | null }

/**
 * A query that creates a resource, once per Idempotency-Key. Its statement also stores the response: an existing key violates
 * the primary key and rolls back the whole statement. A retry gets the first response, and so does a concurrent request, which
 * waits on the unique constraint until the first has ended. `makeValues` receives the id of the new row; it is not called for
 * a retry.
 *
 * @throws IdempotencyKeyReused when the key was used with a different request
 */
export const creation = <P extends Parameters, C extends Columns>(
  name: StatementName,
  parameters: P,
  columns: C,
  build: (p: Placeholders<P & { id: 'uuid' }> & ContextPlaceholders) => CreationParts,
): ((
  ctx: OpContext,
  makeValues: (id: string) => Promise<Values<P>> | Values<P>,
) => Promise<CreationResult<C>>) => {
  const insert = query(name, { ...parameters, id: 'uuid' as const }, columns, (p) => {
    const { parts, select } = build(p)
    return sql`with ${parts}, kept as (${storeResponse(p, sql`created`)}) ${select}`
  })
  return async (ctx, makeValues) => {
    const earlier = await findStoredResponse(ctx)
    if (earlier !== null) return earlier
    try {
      const id = newId()
      const rows = await insert(ctx, { ...(await makeValues(id)), id } as Values<P & { id: 'uuid' }>)
      const row = rows[0] ?? null
      // The loser of a race gets the winner's response, whether a quota or a constraint refused it.
      const winner = isRefused(row) ? await findStoredResponse(ctx) : null
      return winner ?? { replayed: false, id, row }
    } catch (error) {
      const winner = error instanceof DatabaseUnavailable ? null : await findStoredResponse(ctx)
      if (winner === null) throw error
      return winner
    }
  }
}

/** Whether the statement created nothing. */
const isRefused = (row: object | null): boolean => row === null || ('json' in row && row.json === null)

/**
 * The outcome of a creation that may be refused; `readChecks` returns the reason. Missing if a resource that the row depends on
 * was deleted concurrently.
 */
export const readCreation = <R extends { readonly json: string | null }>(
  result: StoredResponse | { readonly replayed: false; readonly id: string; readonly row: R | null },
  readChecks: (row: R | null) => Outcome<R>,
): Outcome<Created> => {
  if (result.replayed) return done(result)
  const checked = readChecks(result.row)
  if (checked.outcome !== 'done') return checked
  const { json } = checked.value
  return json === null ? missing : done({ id: result.id, json, replayed: false })
}

/** The result of a creation whose statement always returns a row. */
export const expectCreated = (result: CreationResult<{ json: 'text' }>): Created => {
  if (result.replayed) return result
  if (result.row === null) throw new Error('The creation returned no row')
  return { id: result.id, json: result.row.json, replayed: false }
}
