import type { AuditEvent, Client } from '../../domain/audit.ts'
import { anyTag, type Preconditions } from '../../domain/entity-tags.ts'
import { type Principal, shellPrincipal } from '../../domain/permissions.ts'
import type { Database } from './client.ts'
import { mapRecord, type ParameterTypes, type Placeholders, placeholdersFor } from './parameters.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { Last, Runner } from './transaction.ts'

/** The Idempotency-Key of a creation, and a fingerprint of its request: a different request must not use the same key. */
export interface Idempotency {
  readonly principalId: string
  readonly operation: string
  readonly key: string
  /** Base64url of an HMAC: it reveals nothing about a password in the body. */
  readonly fingerprint: string
  /** Whether a stored fingerprint matches this request. It may have been computed with an earlier secret. */
  readonly isFingerprint: (stored: string) => boolean
  /** The same key with other content. A form's content is known only after its handler has read it. */
  readonly withContent: (content: unknown) => Idempotency
}

/**
 * What the statements of an operation take from it: an operation, or its transaction. `principal` is null where no token is required.
 */
export interface StatementContext<P extends Principal | null = Principal | null> extends Preconditions {
  readonly db: Runner
  readonly principal: P
  readonly client: Client
  /** Null without an Idempotency-Key. */
  readonly idempotency: Idempotency | null
}

/** The context of a transaction. Nothing but the database may be awaited before it ends. */
export interface TransactionContext<
  P extends Principal | null = Principal | null,
> extends StatementContext<P> {
  /** Calls `task` when the transaction has been committed. */
  readonly afterCommit: (task: () => void) => void
}

/** The context of one operation. Handlers, services and queries take it as their first argument. */
export interface OpContext<P extends Principal | null = Principal | null> extends StatementContext<P> {
  readonly db: Database
  /**
   * The signal that is aborted when the request ends: the response was sent, or the client disconnected. A function, because few
   * handlers need it: copies of the context do not create it.
   */
  readonly signal: () => AbortSignal
}

/**
 * Runs `work` as a transaction, in which nothing but the database may be awaited.
 *
 * @throws as `Database.transaction`
 */
export const transaction = async <P extends Principal | null, T>(
  ctx: OpContext<P>,
  work: (tx: TransactionContext<P>) => Promise<T | Last<T>>,
): Promise<T> => {
  const { db, principal } = ctx
  let committed: (() => void)[] = []
  const result = await db.transaction((statements) => {
    // The tasks of an attempt that is repeated are dropped.
    committed = []
    const afterCommit = (task: () => void): void => void committed.push(task)
    const audited = (event: AuditEvent): void => afterCommit(() => db.audited?.(event))
    return work({ ...ctx, db: { ...statements, audited }, afterCommit })
  }, principal?.userId ?? null)
  for (const task of committed) task()
  return result
}

/** The context of a command on the machine of the service. `requestId` identifies the command in the audit trail. */
export const shellContext = (db: Database, requestId: string): OpContext<Principal> => ({
  db,
  principal: shellPrincipal,
  client: { address: '', userAgent: null, requestId },
  ifMatch: null,
  ifNoneMatch: null,
  idempotency: null,
  signal: () => new AbortController().signal,
})

/** The same context without an Idempotency-Key: its response is not stored. */
export const withoutKey = <P extends Principal | null>(ctx: OpContext<P>): OpContext<P> => ({
  ...ctx,
  idempotency: null,
})

/** The same context, which also requires `version`, the version in the body of a replacement. */
export const withVersion = <C extends OpContext>(ctx: C, version: number | undefined): C => {
  if (version === undefined) return ctx
  const tag = String(version)
  const { ifMatch } = ctx
  return {
    ...ctx,
    ifMatch: ifMatch === null || ifMatch.includes(anyTag) || ifMatch.includes(tag) ? [tag] : [],
  }
}

/** The same context without conditions, for a further statement about a resource that has met them. */
export const withoutConditions = <C extends OpContext>(ctx: C): C => ({
  ...ctx,
  ifMatch: null,
  ifNoneMatch: null,
})

/** Whether the request may be a retry, which gets the stored response. */
export const mayBeRepeat = ({ idempotency }: OpContext): boolean => idempotency !== null

/** The same context with this request content. A form's content is known only after it has been received. */
export const withContent = <C extends OpContext>(ctx: C, content: unknown): C =>
  ctx.idempotency === null ? ctx : { ...ctx, idempotency: ctx.idempotency.withContent(content) }

/** The context's statement parameters. Only those that a statement uses are sent. */
const contextParameters = {
  caller: 'uuid?',
  is_admin: 'bool',
  in_session: 'bool',
  if_match: 'text[]?',
  if_none_match: 'text[]?',
  idempotency_operation: 'text',
  idempotency_key: 'text?',
  idempotency_fingerprint: 'text',
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
  if_match: ({ ifMatch }) => ifMatch,
  if_none_match: ({ ifNoneMatch }) => ifNoneMatch,
  idempotency_operation: ({ idempotency }) => idempotency?.operation ?? '',
  idempotency_key: ({ idempotency }) => idempotency?.key ?? null,
  idempotency_fingerprint: ({ idempotency }) => idempotency?.fingerprint ?? '',
}

const isShell = (principal: Principal | null): boolean => principal?.credential.kind === 'shell'

const isContextParameter = (name: string): name is ContextParameter => Object.hasOwn(readers, name)

/** Values for the context parameters among `names`. */
export const contextValues = (
  ctx: StatementContext,
  names: readonly string[],
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(names.filter(isContextParameter).map((name) => [name, readers[name](ctx)]))
