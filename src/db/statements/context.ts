import type { Client } from '../../domain/activity/audit.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { mapRecord, type ParameterTypes, type Placeholders, placeholdersFor } from './parameters.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { Runner, Transaction } from '../engine/transaction.ts'

/**
 * What the statements of an operation take from it: an operation, or its transaction. `principal` is null where no token is required.
 */
export interface StatementContext<P extends Principal | null = Principal | null> {
  readonly db: Runner
  readonly principal: P
  readonly client: Client
}

/** The context of a transaction. Nothing but the database may be awaited before it ends. */
export interface TransactionContext<
  P extends Principal | null = Principal | null,
> extends StatementContext<P> {
  readonly db: Transaction
  /** Calls `task` when the transaction has been committed. */
  readonly afterCommit: (task: () => void) => void
}

/** The context's statement parameters. Only those that a statement uses are sent. */
const contextParameters = {
  caller: 'uuid?',
  is_admin: 'bool',
  in_session: 'bool',
} as const

export type ContextPlaceholders = Placeholders<typeof contextParameters>

/**
 * The context's parameters as SQL. A subselect hides the value of a flag from the planner: otherwise the custom plans, one per
 * value, look slightly cheaper than the generic plan, and the statement is planned at each execution, which takes longer than
 * running it.
 */
export const contextPlaceholders: ContextPlaceholders = mapRecord<ContextParameter, SQL, SQL>(
  placeholdersFor(contextParameters),
  (placeholder, name) => (contextParameters[name] === 'bool' ? sql`(select ${placeholder})` : placeholder),
)

type ContextParameter = keyof typeof contextParameters

type Readers = {
  readonly [Name in ContextParameter]: (
    ctx: StatementContext,
  ) => ParameterTypes[(typeof contextParameters)[Name]]
}

const readers: Readers = {
  caller: ({ principal }) => principal?.userId ?? null,
  is_admin: ({ principal }) => principal?.role === 'admin',
  // The shell has the permissions of a session.
  in_session: ({ principal }) => principal?.credential.kind === 'session' || isShell(principal),
}

const isShell = (principal: Principal | null): boolean => principal?.credential.kind === 'shell'

const isContextParameter = (name: string): name is ContextParameter => Object.hasOwn(readers, name)

/** Values for the context parameters among `names`. */
export const contextValues = (
  ctx: StatementContext,
  names: readonly string[],
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(names.filter(isContextParameter).map((name) => [name, readers[name](ctx)]))
