import { newId } from '../../db/shared/ids.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { pipeline, pipelineEach } from '../../db/engine/pipeline.ts'
import { type Preconditions, withoutVariant } from '../../domain/shared/entity-tags.ts'
import { grants, listReader, type Principal } from '../../domain/shared/permissions.ts'
import { scopesOfNewTask } from '../../domain/shared/scopes.ts'
import {
  type BatchKind,
  countIndexedCharacters,
  countItems,
  maxIndexedCharacters,
  maxItems,
  type TaskBatch,
} from '../../domain/tasks/batch.ts'
import type { ExpectedTask, TaskExpectation } from '../../domain/tasks/expected.ts'
import type { NewTask, TaskPatch } from '../../domain/tasks/fields.ts'
import {
  fieldsOfProblem,
  Problem,
  type ProblemFields,
  problemOfFields,
  problems,
} from '../../problems/problems.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectScopes } from '../shared/expectations.ts'
import { idempotent, withoutKey } from '../shared/idempotency.ts'
import { readExpectation } from './expected.ts'
import { openPlan, relatedTask, type TaskPlan, writePlan } from './plan.ts'
import { countOwnedTasks } from './quota.ts'
import { referencesOfBatch } from './references.ts'
import { planCreation, planDeletion, planTag, planUntag, planUpdate } from './rules.ts'

type Batch = TaskBatch<NewTask, TaskPatch, TaskExpectation>

/** The mode of a batch. */
interface BatchOptions {
  /** Whether all items fail if one does. */
  readonly atomic: boolean
  /** Whether the batch is only checked: nothing is written, and the results show what would happen. */
  readonly dryRun: boolean
  /** The quota of the installation; null is unlimited. */
  readonly taskQuota: number | null
}

/** The result of an item. */
export interface BatchResult {
  readonly kind: BatchKind
  /** The index of the item among the items of its kind. */
  readonly index: number
  /** Null on success. */
  readonly problem: Problem | null
  /** Set for a created task. */
  readonly id: string | null
  /** The version of the task after the item; null if it was moved to the trash. */
  readonly version: number | null
}

/** The result of a batch. */
export interface BatchResponse {
  /** The id of the request that ran the batch: this one, or an earlier one with the same Idempotency-Key. */
  readonly requestId: string
  readonly results: readonly BatchResult[]
  readonly replayed: boolean
}

/**
 * Runs a batch of writes, in one transaction. Each item sees those before it, in the order of their kinds.
 *
 * @throws Problem 400 when the batch is empty or too large; 413 when it exceeds a quota
 */
export const runBatch = async (
  ctx: OpContext<Principal>,
  batch: Batch,
  { atomic, dryRun, taskQuota }: BatchOptions,
): Promise<BatchResponse> => {
  expectScopes(ctx, (batch.create ?? []).flatMap(scopesOfNewTask))
  checkItems(batch)
  const expectations = readExpectations(batch, ctx.principal)
  const { requestId } = ctx.client
  let owners: readonly string[] = []
  const run = async (): Promise<BatchResponse> => {
    // The response of a dry run is not stored under the key: it must not be replayed for the real request.
    const { json, replayed } = await idempotent(dryRun ? withoutKey(ctx) : ctx, async (tx) => {
      const plan = await openPlan(tx, referencesOfBatch(batch, ctx.principal.userId))
      const results = planItems(plan, batch, expectations)
      owners = ownersOfShown(plan, batch, results)
      if (atomic && results.some(({ problem }) => problem !== null)) throw new NotApplied(results)
      await pipeline(tx.db, {
        plan: () => !dryRun && writePlan(tx, plan),
        ownedTasks: () => countOwnedTasks(tx, plan, taskQuota),
      })
      if (dryRun) throw new NotApplied(results)
      return { json: writeResponse(requestId, results) }
    })
    return { ...readResponse(json), replayed }
  }
  const response = await run().catch((error: unknown): BatchResponse => {
    if (!(error instanceof NotApplied)) throw error
    return { requestId, results: error.results.map(unapplied), replayed: false }
  })
  if (owners.length > 0)
    await transaction(ctx, async (tx) => {
      await pipelineEach(tx.db, owners, (userId) => recordAudit(tx, 'task.read_by_admin', { userId }))
    })
  return response
}

/** The owners of the tasks whose conflicts the caller sees only as an administrator, before the batch. */
const ownersOfShown = (plan: TaskPlan, batch: Batch, results: readonly BatchResult[]): readonly string[] => {
  const asMember = { ...plan, principal: listReader(plan.principal, {}), tasks: new Map(plan.before) }
  return results.flatMap(({ kind, index, problem }) => {
    if (kind !== 'update' || problem?.members.conflicts === undefined) return []
    const id = batch.update?.[index]?.task_id
    const task = id === undefined ? null : relatedTask(asMember, id)
    return task === null || grants('task.see', task.relations) ? [] : [task.owner_id]
  })
}

const unapplied = ({ kind, index, problem }: BatchResult): BatchResult => ({
  kind,
  index,
  problem,
  id: null,
  version: null,
})

/** Rolls the transaction of a batch back that is not to be applied. */
class NotApplied extends Error {
  override readonly name = 'NotApplied'
  readonly results: readonly BatchResult[]
  constructor(results: readonly BatchResult[]) {
    super('The batch is not applied')
    this.results = results
  }
}

/**
 * What the updates expect, by their index.
 *
 * @throws Problem 400
 */
const readExpectations = ({ update = [] }: Batch, { timeZone }: Principal): readonly ExpectedTask[] =>
  update.map(({ expect = {} }, index) => readExpectation(expect, timeZone, `/update/${index}/expect`))

const checkItems = (batch: Batch): void => {
  const count = countItems(batch)
  if (count === 0 || count > maxItems) throw problems.batchSize(maxItems)
  if (countIndexedCharacters(batch) > maxIndexedCharacters) throw problems.batchText(maxIndexedCharacters)
}

/** Plans the items in their order. One that fails plans nothing. */
const planItems = (
  plan: TaskPlan,
  batch: Batch,
  expectations: readonly ExpectedTask[],
): readonly BatchResult[] => {
  const each = <Item>(
    kind: BatchKind,
    items: readonly Item[] = [],
    planItem: (item: Item, index: number) => string,
  ) =>
    items.map((item, index): BatchResult => {
      try {
        const id = planItem(item, index)
        const task = plan.tasks.get(id)
        const version = task === undefined || task.isTrashed ? null : task.version
        return { kind, index, problem: null, id: kind === 'create' ? id : null, version }
      } catch (error) {
        if (error instanceof Problem) return { kind, index, problem: error, id: null, version: null }
        throw error
      }
    })
  const created: string[] = []
  return [
    ...each('create', batch.create, ({ parent, ...task }, index) => {
      const id = newId()
      planCreation(plan, id, parent === undefined ? task : { ...task, ...parentAmong(created, parent, task) })
      created[index] = id
      return id
    }),
    ...each('update', batch.update, ({ task_id: id, patch, ...item }, index) => {
      planUpdate(plan, { id, conditions: conditionsOf(item), expected: expectations[index] }, patch)
      return id
    }),
    ...each('tag', batch.tag, ({ task_id: id, tag_id }) => {
      planTag(plan, { id, conditions: conditionsOf({}) }, tag_id)
      return id
    }),
    ...each('untag', batch.untag, ({ task_id: id, tag_id, ...item }) => {
      planUntag(plan, { id, conditions: conditionsOf(item) }, tag_id)
      return id
    }),
    ...each('delete', batch.delete, ({ task_id: id, ...item }) => {
      planDeletion(plan, { id, conditions: conditionsOf(item) })
      return id
    }),
  ]
}

/**
 * The parent that an item before this one has created.
 *
 * @throws Problem 422 if it has not, or if the item names another parent as well
 */
const parentAmong = (created: readonly string[], parent: number, { parent_id }: NewTask) => {
  if (parent_id !== undefined) throw problems.parentTwice()
  const id = created[parent]
  if (id === undefined) throw problems.parentNotCreated()
  return { parent_id: id }
}

/** Without quotes, what an item expects is a version. */
const conditionsOf = ({ if_match }: { readonly if_match?: string }): Preconditions => ({
  ifMatch: if_match === undefined ? null : [withoutVariant(if_match.replace(/^"(.*)"$/, '$1'))],
  ifNoneMatch: null,
})

/** What is stored of a response. */
interface StoredResponse {
  readonly request_id: string
  readonly results: readonly (Omit<BatchResult, 'problem'> & { readonly problem: ProblemFields | null })[]
}

const writeResponse = (requestId: string, results: readonly BatchResult[]): string => {
  const stored: StoredResponse = {
    request_id: requestId,
    results: results.map(({ problem, ...result }) => ({
      ...result,
      problem: problem && fieldsOfProblem(problem),
    })),
  }
  return JSON.stringify(stored)
}

const readResponse = (json: string): Omit<BatchResponse, 'replayed'> => {
  const { request_id: requestId, results } = JSON.parse(json) as StoredResponse
  const read = results.map(({ kind, index, id, version, problem }): BatchResult => {
    return { kind, index, id, version, problem: problem && problemOfFields(problem) }
  })
  return { requestId, results: read }
}
