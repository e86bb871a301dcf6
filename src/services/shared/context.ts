import type { OperationContext } from '../../contract/operation.ts'
import type { Database } from '../../db/engine/client.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { OutcomeUnknown } from '../../db/engine/errors.ts'
import type { Last } from '../../db/engine/transaction.ts'
import type { AuditEvent, Client } from '../../domain/activity/audit.ts'
import type { Preconditions } from '../../domain/shared/entity-tags.ts'
import type { Principal } from '../../domain/shared/permissions.ts'

/** The context of one operation. Handlers and services take it as their first argument. */
export type OpContext<P extends Principal | null = Principal | null> = OperationContext<P, Database>

/** The context of an operation's transaction, with the conditions of its request. */
export interface OpTransaction<P extends Principal | null> extends TransactionContext<P>, Preconditions {}

/**
 * Runs `work` as a transaction, in which nothing but the database may be awaited. A session that is lost before the commit leaves nothing
 * (503). A commit without an answer may have taken effect (504): what waits for `afterCommit` does not run then, and jobs find their work at
 * their intervals.
 *
 * @throws as `Database.transaction`
 */
export const transaction = async <P extends Principal | null, T>(
  ctx: OpContext<P>,
  work: (tx: OpTransaction<P>) => Promise<T | Last<T>>,
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

/**
 * Waits for a change of credentials, and then forgets what is cached of them: also if its commit was not answered, since it may have
 * taken effect.
 */
export const thenForget = async <T>(change: Promise<T>, forget: () => Promise<void>): Promise<T> => {
  try {
    const result = await change
    await forget()
    return result
  } catch (error) {
    if (error instanceof OutcomeUnknown) await forget()
    throw error
  }
}

/**
 * The context of what is no operation of the contract: a command, a job, or a request to a page of the service. It has no conditions and
 * no Idempotency-Key, and nobody disconnects.
 */
export const createContext = <P extends Principal | null>(
  db: Database,
  principal: P,
  client: Client,
): OpContext<P> => ({
  db,
  principal,
  client,
  ifMatch: null,
  ifNoneMatch: null,
  idempotency: null,
  signal: () => new AbortController().signal,
})
