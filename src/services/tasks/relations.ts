import type { TransactionContext } from '../../db/statements/context.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { recordEventOfTask } from '../../db/shared/record-event.ts'
import {
  type ChangeableRelation,
  findBlockingPath,
  insertRelation,
  lockJoins,
  lockRelation,
  type Relation,
  type RelationFacts,
  type RelationFilter,
  removeRelation,
  seenOf,
  selectRelations,
} from '../../db/tasks/relations.ts'
import { countBlocker } from '../../db/tasks/facts.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import {
  inverseKind,
  type RelationKind,
  type StoredRelation,
  storedRelation,
} from '../../domain/tasks/relations.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectAbsent, expectActive, expectFound, expectMay, expectSeen } from '../shared/expectations.ts'

/** Maximum number of relations of a task. The contract documents it. */
const maxRelations = 200

/**
 * A relation of which the caller may change the task and sees the related one.
 *
 * @throws Problem 404, 403
 */
const expectChangeable = (relation: RelationFacts): ChangeableRelation => {
  const task = expectSeen('task.see', relation.task)
  expectSeen('task.see', relation.related)
  return { ...relation, task: expectMay('task.change', task) }
}

/** @throws Problem 409 if a task would block itself, or the search for that would take too long */
const expectNoCycle = async (tx: TransactionContext<Principal>, relation: RelationFacts): Promise<void> => {
  const { stored, isBlockerBlocked, isBlockedBlocking } = relation
  if (stored.kind !== 'blocks' || !isBlockedBlocking) return
  const { path } = await pipeline(tx.db, {
    joins: () => (isBlockerBlocked ? lockJoins(tx) : null),
    path: () => findBlockingPath(tx, stored),
  })
  if (path === 'too_many') throw problems.tooManyBlocked()
  if (path !== null) throw problems.blockingCycle(await seenOf(tx, path))
}

/** What a new or an ended relation means to both tasks. */
const tellBoth = async (
  tx: TransactionContext,
  type: 'task.related' | 'task.unrelated',
  stored: StoredRelation,
): Promise<void> => {
  const { taskId, kind, otherTaskId } = stored
  const isNew = type === 'task.related'
  const changes = (value: { readonly kind: RelationKind }) =>
    isNew ? { before: {}, after: value } : { before: value, after: {} }
  await pipeline(tx.db, {
    eventOfTask: () => recordEventOfTask(tx, type, { taskId, resourceId: otherTaskId }, changes({ kind })),
    eventOfOther: () =>
      recordEventOfTask(
        tx,
        type,
        { taskId: otherTaskId, resourceId: taskId },
        changes({ kind: inverseKind(stored) }),
      ),
    blocker: () => (kind === 'blocks' ? countBlocker(tx, otherTaskId, isNew ? 1 : -1) : null),
  })
}

/** A page of the relations of a task. @throws Problem 404 */
export const listTaskRelations = async (
  ctx: OpContext<Principal>,
  taskId: string,
  filter: RelationFilter,
  page: PageRequest,
): Promise<Page> => expectFound(await selectRelations(ctx, taskId, filter, page))

/** A relation in the path of a request. */
interface RelationPath {
  readonly taskId: string
  readonly kind: RelationKind
  readonly otherTaskId: string
}

/** @throws Problem 400 if both tasks are the same */
const relationOf = ({ taskId: task, kind, otherTaskId }: RelationPath): Relation => {
  const [taskId, relatedId] = [task.toLowerCase(), otherTaskId.toLowerCase()]
  if (taskId === relatedId) throw problems.invalidField('/other_task_id', 'must be another task')
  return { taskId, relatedId, stored: storedRelation(taskId, kind, relatedId) }
}

/** Relates a task to another one that the caller can see, unless they are related in this way. */
export const addRelation = (ctx: OpContext<Principal>, path: RelationPath): Promise<void> => {
  const named = relationOf(path)
  const id = newId()
  return transaction(ctx, async (tx) => {
    const relation = expectChangeable(await lockRelation(tx, named))
    expectAbsent(tx, relation.isRelated)
    expectActive(relation.task)
    if (relation.isRelated) return
    if (relation.count >= maxRelations) throw problems.tooManyRelations()
    await expectNoCycle(tx, relation)
    await pipeline(tx.db, {
      relation: () => insertRelation(tx, relation, id),
      events: () => tellBoth(tx, 'task.related', relation.stored),
    })
  })
}

/** Ends the relation of a task to another one that the caller can see. */
export const endRelation = (ctx: OpContext<Principal>, path: RelationPath): Promise<void> => {
  const named = relationOf(path)
  return transaction(ctx, async (tx) => {
    const relation = expectChangeable(await lockRelation(tx, named))
    expectActive(relation.task)
    if (!relation.isRelated) throw problems.notFound()
    await pipeline(tx.db, {
      relation: () => removeRelation(tx, relation),
      events: () => tellBoth(tx, 'task.unrelated', relation.stored),
    })
  })
}
