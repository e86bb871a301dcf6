import { type OpContext, withoutKey } from '../db/engine/context.ts'
import { type BatchResponse, type BatchOptions, runTaskBatch } from '../db/task-batch.ts'
import type { NewTask, TaskPatch } from '../db/tasks.ts'
import type { Principal } from '../domain/permissions.ts'
import {
  type BatchResult,
  countIndexedCharacters,
  countItems,
  maxIndexedCharacters,
  maxItems,
  type TaskBatch,
} from '../domain/task-batch.ts'
import { expectDone, problems } from '../problems/problems.ts'
import type { TaskQuota } from './task-quota.ts'

type Batch = TaskBatch<NewTask, TaskPatch>

/**
 * Runs a batch of writes.
 *
 * @throws Problem 400 when the batch is empty or too large; 413 when it exceeds a quota
 */
export type RunBatch = (
  ctx: OpContext<Principal>,
  batch: Batch,
  options: BatchOptions,
) => Promise<BatchResponse>

export const createRunBatch =
  (quota: TaskQuota): RunBatch =>
  async (ctx, batch, options) => {
    checkItems(batch)
    // The response of a dry run is not stored under the key: it must not be replayed for the real request.
    const repeatable = options.dryRun ? withoutKey(ctx) : ctx
    const { userId } = ctx.principal
    const response = await runTaskBatch(repeatable, batch, options, () =>
      expectQuota(quota, ctx.principal, batch),
    )
    if (!response.replayed && !options.dryRun) countAdded(quota, userId, batch, response.results)
    return response
  }

const checkItems = (batch: Batch): void => {
  const count = countItems(batch)
  if (count === 0 || count > maxItems) throw problems.batchSize(maxItems)
  if (countIndexedCharacters(batch) > maxIndexedCharacters) throw problems.batchText(maxIndexedCharacters)
}

/** Checks quotas. Every item that names another owner counts as a transfer, even if the task already has that owner. */
const expectQuota = async (quota: TaskQuota, caller: Principal, { create, update }: Batch): Promise<void> => {
  const { userId } = caller
  const own = (create ?? []).filter(({ owner_id = userId }) => owner_id === userId)
  expectDone(await quota.checkNew(caller, own.length))
  const recipients = Map.groupBy(update ?? [], ({ patch }) => patch.owner_id ?? userId)
  for (const [ownerId, tasks] of recipients) {
    if (ownerId !== userId) expectDone(await quota.checkTransfer(ownerId, tasks.length))
  }
}

const countAdded = (
  quota: TaskQuota,
  userId: string,
  { create, update }: Batch,
  results: readonly BatchResult[],
): void => {
  for (const { kind, index, refusal } of results) {
    if (refusal !== null) continue
    if (kind === 'create') quota.add(create?.[index]?.owner_id ?? userId, 1)
    const ownerId = kind === 'update' ? update?.[index]?.patch.owner_id : undefined
    if (ownerId !== undefined) quota.add(ownerId, 1)
  }
}
