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
import { expectQuotaForHandover, type TaskQuota } from './task-quota.ts'

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
    let addHandedOver = (): void => undefined
    const response = await runTaskBatch(repeatable, batch, options, async () => {
      addHandedOver = await expectQuota(quota, ctx, batch)
    })
    if (response.replayed || options.dryRun) return response
    countAdded(quota, userId, batch, response.results)
    addHandedOver()
    return response
  }

const checkItems = (batch: Batch): void => {
  const count = countItems(batch)
  if (count === 0 || count > maxItems) throw problems.batchSize(maxItems)
  if (countIndexedCharacters(batch) > maxIndexedCharacters) throw problems.batchText(maxIndexedCharacters)
}

/** Checks quotas. Returns what adds the handed over tasks to the estimates. */
const expectQuota = async (
  quota: TaskQuota,
  ctx: OpContext<Principal>,
  { create, update }: Batch,
): Promise<() => void> => {
  const { userId } = ctx.principal
  const own = (create ?? []).filter(({ owner_id = userId }) => owner_id === userId)
  expectDone(await quota.checkNew(ctx.principal, own.length))
  const changes = (update ?? []).map(({ task_id, patch: { owner_id, project_id } }) => ({
    task_id,
    owner_id,
    project_id,
  }))
  return expectQuotaForHandover(quota, ctx, changes)
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
    if (kind === 'update' && update?.[index]?.patch.owner_id === userId) quota.add(userId, 1)
  }
}
