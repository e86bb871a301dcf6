import type { components } from '../../generated/openapi.ts'
import type { Database } from '../db/engine/client.ts'
import { runTaskBatch } from '../db/task-batch.ts'
import { tagPointer } from '../domain/tag-pointer.ts'
import {
  type BatchKind,
  batchKinds,
  type BatchResult,
  countItems,
  findRepeated,
  countIndexedCharacters,
  maxIndexedCharacters,
  mostItems,
} from '../domain/task-batch.ts'
import { type Handlers, quoteETag } from '../contract/operation.ts'
import type { TaskQuota } from '../services/task-quota.ts'
import { Problem, problemDocument, problems, problemWithin } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  /** In front of what problems link to; empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
  readonly taskQuota: TaskQuota
}

type Schemas = components['schemas']
type Batch = Omit<Schemas['TaskBatch'], 'atomic' | 'dry_run'>

/** The operation of the contract's tag `tasks` that does many things at once. */
export const taskBatchHandlers = ({ db, publicUrl, taskQuota }: Deps) =>
  ({
    async batchTasks({ body, path, principal, client, idempotency }) {
      const { atomic = false, dry_run: dryRun = false, ...batch } = body
      checkItems(batch)
      // What was not done is no answer to a request that does it.
      const kept = dryRun ? null : idempotency
      const options = { atomic, dryRun }
      const { requestId, results, replayed } = await runTaskBatch(
        db,
        principal,
        batch,
        options,
        client.requestId,
        kept,
        () => expectRoom(taskQuota, principal.userId, batch),
      )
      if (!replayed && !dryRun) noteAdded(taskQuota, principal.userId, batch, results)
      const ended = inOrder(results).map((result) => ({ result, problem: failureOf(batch, result) }))
      if (atomic) throwFirst(ended.flatMap(({ problem }) => problem ?? []))

      const answer = ({ result, problem }: (typeof ended)[number]): Schemas['TaskBatchResult'] => {
        const { kind, id, version } = result
        return {
          status: problem?.status ?? successStatuses[kind],
          task_id: id ?? taskIdOf(batch, result),
          etag: version === null ? null : quoteETag(version),
          ...(problem !== null && { problem: problemDocument(problem, publicUrl, path, requestId) }),
        }
      }
      const of = (kind: BatchKind) => ended.filter(({ result }) => result.kind === kind).map(answer)
      const lists = { create: of('create'), update: of('update'), delete: of('delete') }
      return { status: 200, body: { ...lists, tag: of('tag'), untag: of('untag') }, replayed }
    },
  }) satisfies Partial<Handlers>

/** Those of the single operations. */
const successStatuses: Readonly<Record<BatchKind, number>> = {
  create: 201,
  update: 200,
  delete: 204,
  tag: 204,
  untag: 204,
}

/** Whoever an item names as the owner is taken to get the task. */
const expectRoom = async (taskQuota: TaskQuota, userId: string, { create, update }: Batch): Promise<void> => {
  const own = (create ?? []).filter(({ owner_id = userId }) => owner_id === userId)
  await taskQuota.expectRoom(userId, own.length)
  const recipients = Map.groupBy(update ?? [], ({ patch }) => patch.owner_id ?? userId)
  for (const [ownerId, tasks] of recipients) {
    if (ownerId !== userId) await taskQuota.expectRoomForTransfer(ownerId, tasks.length)
  }
}

const noteAdded = (
  taskQuota: TaskQuota,
  userId: string,
  { create, update }: Batch,
  results: readonly BatchResult[],
): void => {
  for (const { kind, index, outcome } of results) {
    if (outcome !== 'done') continue
    if (kind === 'create') taskQuota.added(create?.[index]?.owner_id ?? userId, 1)
    const ownerId = kind === 'update' ? update?.[index]?.patch.owner_id : undefined
    if (ownerId !== undefined) taskQuota.added(ownerId, 1)
  }
}

const checkItems = (batch: Batch): void => {
  const count = countItems(batch)
  if (count === 0 || count > mostItems) throw problems.batchSize(mostItems)
  if (countIndexedCharacters(batch) > maxIndexedCharacters) throw problems.batchText(maxIndexedCharacters)
  const repeated = findRepeated(batch)
  if (repeated !== null) throw problems.repeatedInBatch(`/${repeated.kind}/${repeated.index}`)
}

const inOrder = (results: readonly BatchResult[]): readonly BatchResult[] =>
  batchKinds.flatMap((kind) => results.filter((result) => result.kind === kind))

const taskIdOf = (batch: Batch, { kind, index }: BatchResult): string | null =>
  kind === 'create' ? null : (batch[kind]?.[index]?.task_id ?? null)

/** The problem that an item ended with; null when it was done. */
const failureOf = (batch: Batch, { kind, index, outcome, unknownTag }: BatchResult): Problem | null => {
  const item = `/${kind}/${index}`
  const fields = kind === 'update' ? `${item}/patch` : item
  switch (outcome) {
    case 'done':
      return null
    case 'missing':
      return problemWithin(item, problems.notFound())
    case 'forbidden':
      return problemWithin(item, problems.forbidden())
    case 'stale':
      return problemWithin(item, problems.preconditionFailed())
    case 'due_before_start':
      return problemWithin(fields, problems.dueBeforeStart())
    case 'unknown_owner':
      return problemWithin(fields, problems.unknownReference('/owner_id', 'user'))
    case 'unknown_assignee':
      return problemWithin(fields, problems.unknownReference('/assignee_id', 'user'))
    case 'unknown_tag': {
      const pointer = tagPointer(batch.create?.[index] ?? {}, unknownTag ?? '')
      return problemWithin(fields, problems.unknownReference(pointer, 'tag'))
    }
  }
}

/** An atomic batch fails with the problem of the first item that fails, and lists the others in `errors`. */
const throwFirst = (failures: readonly Problem[]): void => {
  const [first] = failures
  if (first === undefined) return
  throw new Problem(first.code, first.message, { errors: failures.flatMap(({ errors }) => errors ?? []) })
}
