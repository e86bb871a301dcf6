import { type ImportLease, holdImport, type HeldImport } from '../../db/interchange/imports.ts'
import type { ImportFailure } from '../../domain/interchange/imports.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type OpContext, type OpTransaction, transaction } from '../shared/context.ts'

/** An import in progress. */
export interface ImportWork {
  readonly ctx: OpContext<Principal>
  readonly held: HeldImport
  /** Aborted when the service stops, and when the import is not this process's any more. */
  readonly signal: AbortSignal
  readonly progress: { done: number; total: number | null }
}

/** Why an import cannot go on. */
export class ImportFailed extends Error {
  override readonly name = 'ImportFailed'
  readonly failure: ImportFailure

  constructor(failure: ImportFailure) {
    super(`The import failed: ${failure}`)
    this.failure = failure
  }
}

/** The import was cancelled, or another process has taken it. */
export class ImportLost extends Error {
  override readonly name = 'ImportLost'
}

/** What an import is written as: its owner, with the rights of a member. */
export const principalOfImport = ({ user_id, time_zone, task_quota }: HeldImport): Principal => ({
  userId: user_id,
  role: 'member',
  timeZone: time_zone,
  taskQuota: task_quota,
  credential: { kind: 'job' },
})

type Work<T> = (tx: OpTransaction<Principal>, lease: ImportLease) => Promise<T>

/** A transaction that has an effect only as long as the import is this process's. @throws ImportLost */
export const inLease = <T>({ ctx, held, signal }: ImportWork, work: Work<T>): Promise<T> => {
  signal.throwIfAborted()
  return transaction(ctx, async (tx) => {
    const lease = await holdImport(tx, held)
    if (lease === null) throw new ImportLost()
    return work(tx, lease)
  })
}

/** The same, and only for an owner who was neither disabled nor deleted. @throws ImportLost, ImportFailed */
export const inLeaseOfActiveOwner = <T>(work: ImportWork, act: Work<T>): Promise<T> =>
  inLease(work, (tx, lease) => {
    if (!lease.is_owner_active) throw new ImportFailed('access_lost')
    return act(tx, lease)
  })
