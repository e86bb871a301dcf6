import { type SQL, sql } from '../schema/drizzle.ts'
import type { ContextPlaceholders, OpContext } from './context.ts'
import { DatabaseUnavailable } from './errors.ts'
import { findAnswer, type StoredAnswer, storeAnswer } from './idempotency.ts'
import { newId } from './ids.ts'
import type { Columns, Parameters, Placeholders, Row, Values } from './parameters.ts'
import { query, type StatementName } from './statement.ts'

/** What was created: its id, its JSON text, and whether that is an earlier request's answer. */
export interface Created {
  readonly id: string
  readonly json: string
  readonly replayed: boolean
}

/** The parts of a statement that creates a resource. */
interface CreationParts {
  /** Common table expressions, one of which is `created` with the columns `id` and `json`; no row when it was refused. */
  readonly parts: SQL
  readonly select: SQL
}

/** What became of a creation: the answer to an earlier request with the same Idempotency-Key, or the row of the statement. */
export type CreationResult<C extends Columns> =
  StoredAnswer | { readonly replayed: false; readonly id: string; readonly row: Row<C> | null }

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
    const earlier = await findAnswer(ctx)
    if (earlier !== null) return earlier
    try {
      const id = newId()
      const rows = await insert(ctx, { ...(await prepare(id)), id } as Values<P & { id: 'uuid' }>)
      const row = rows[0] ?? null
      // The loser of a race gets the winner's answer, whether a quota refuses it or a constraint.
      const winner = isRefused(row) ? await findAnswer(ctx) : null
      return winner ?? { replayed: false, id, row }
    } catch (error) {
      const winner = error instanceof DatabaseUnavailable ? null : await findAnswer(ctx)
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
