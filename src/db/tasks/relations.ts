import type { Authorized, Principal } from '../../domain/shared/permissions.ts'
import type { RelationExpansion } from '../../domain/shared/expansions.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { RelationKind, StoredRelation } from '../../domain/tasks/relations.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsTask } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { conditionsOf, filterOneOf } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPageOf } from '../lists/list.ts'
import { relationJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, type SQL, sql } from '../schema/drizzle.ts'
import { taskRelations, tasks } from '../schema/tables.ts'
import { lockTasks, type TaskFacts } from './facts.ts'
import { isTaskVisible } from './visibility.ts'

/**
 * Relations of tasks. A relation is one row, which both tasks show: see `storedRelation`. Writers hold the locks of both tasks.
 */

const relation = aliasedTable(taskRelations, 'relation')
const item = aliasedTable(taskRelations, 'item')
const task = aliasedTable(tasks, 'task')
const related = aliasedTable(tasks, 'related')

/** A relation of the task in the path of a request to a related one, and its row. Ids are in lower case. */
export interface Relation {
  readonly taskId: string
  readonly relatedId: string
  readonly stored: StoredRelation
}

/** What a change of a relation depends on. A task that does not exist or is in the trash is null. */
export interface RelationFacts<Task = TaskFacts | null> {
  readonly stored: StoredRelation
  readonly task: Task
  readonly related: TaskFacts | null
  /** Whether the relation exists. */
  readonly isRelated: boolean
  /** The relations of the task that has more. */
  readonly count: number
  /** Whether another task blocks the one that would block the other. */
  readonly isBlockerBlocked: boolean
  /** Whether the one that would be blocked blocks another task. */
  readonly isBlockedBlocking: boolean
}

/** A relation of a task that the caller was found to be allowed to change. */
export type ChangeableRelation = RelationFacts<Authorized<'task.change', TaskFacts>>

const rowParameters = { from_id: 'uuid', kind: 'text', to_id: 'uuid' } as const

const rowValues = ({ taskId, kind, otherTaskId }: StoredRelation) => ({
  from_id: taskId,
  kind,
  to_id: otherTaskId,
})

const selectFacts = statement(
  'task_relations.select_facts',
  rowParameters,
  { is_related: 'bool', count: 'int8', is_blocker_blocked: 'bool', is_blocked_blocking: 'bool' },
  (p) => {
    const exists = (condition: SQL) => sql`exists (select from task_relations relation where ${condition})`
    const countOf = (taskId: SQL) => sql`(
      select count(*) from task_relations relation where ${taskId} in (${relation.task_id}, ${relation.other_task_id}))`
    const isRow = sql`${relation.task_id} = ${p.from_id} and ${relation.kind} = ${p.kind} and ${relation.other_task_id} = ${p.to_id}`
    return sql`
      select ${exists(isRow)} as is_related, greatest(${countOf(p.from_id)}, ${countOf(p.to_id)}) as count,
        ${exists(sql`${relation.other_task_id} = ${p.from_id} and ${relation.kind} = 'blocks'`)} as is_blocker_blocked,
        ${exists(sql`${relation.task_id} = ${p.to_id} and ${relation.kind} = 'blocks'`)} as is_blocked_blocking`
  },
)

/** Locks both tasks of a relation, and reads them and their relations under the locks. */
export const lockRelation = async (
  tx: TransactionContext<Principal>,
  { taskId, relatedId, stored }: Relation,
): Promise<RelationFacts> => {
  const { found, rows } = await pipeline(tx.db, {
    found: () => lockTasks(tx, [taskId, relatedId]),
    rows: () => selectFacts(tx.db, rowValues(stored)),
  })
  const facts = expectRow(rows)
  return {
    stored,
    task: found.get(taskId) ?? null,
    related: found.get(relatedId) ?? null,
    isRelated: facts.is_related,
    count: facts.count,
    isBlockerBlocked: facts.is_blocker_blocked,
    isBlockedBlocking: facts.is_blocked_blocking,
  }
}

const lockChains = statement(
  'task_relations.lock_chains',
  {},
  {},
  () => sql`select pg_advisory_xact_lock(hashtext('task_relations'))::text as locked`,
)

/**
 * Until the end of the transaction, no other relation joins two chains: makes a task that is blocked block one that blocks others.
 *
 * Of relations that close a cycle together, the last one to be committed joins chains. It sees that, because its neighbours in the
 * cycle were there before, or share a task with it, whose lock it has waited for. It also sees the rest of the cycle. What joins chains
 * has been committed before it takes this lock. Any other relation of the cycle was added when it began or ended a chain, at a task that
 * the next relation of the cycle had to wait for; that one has not waited for this lock either, and so on up to the last one, which
 * has waited for its own tasks.
 */
export const lockJoins = async ({ db }: TransactionContext): Promise<void> => {
  await lockChains(db, {})
}

const selectPath = statement(
  'task_relations.select_path',
  { from_id: 'uuid', to_id: 'uuid' },
  { path: 'text?' },
  (p) => sql`select array_to_string(blocking_path(${p.from_id}, ${p.to_id}), ',') as path`,
)

/**
 * The ids of the tasks from the blocked task to the blocker, each of which blocks the next; null if there are none. `too_many` if the
 * blocked task blocks more than 1,000 others.
 */
export const findBlockingPath = async (
  { db }: TransactionContext,
  { taskId, otherTaskId }: StoredRelation,
): Promise<readonly string[] | 'too_many' | null> => {
  const [row] = await selectPath(db, { from_id: taskId, to_id: otherTaskId })
  if (row?.path === '') return 'too_many'
  return row?.path?.split(',') ?? null
}

const selectSeen = query(
  'task_relations.select_seen',
  { ids: 'uuid[]' },
  { id: 'text' },
  (p) => sql`
    select ${task.id}::text from unnest(${p.ids}) with ordinality step (task_id, place)
      join tasks task on ${task.id} = step.task_id
    where ${allowsTask('task.see', p, task)} order by place`,
)

/** Those of the tasks that the caller can see. */
export const seenOf = async (tx: TransactionContext, ids: readonly string[]): Promise<readonly string[]> =>
  (await selectSeen(tx, { ids })).map((task) => task.id)

const insert = builtStatement('task_relations.insert', { id: 'uuid', ...rowParameters }, (db, p) =>
  db.insert(taskRelations).values({ id: p.id, task_id: p.from_id, kind: p.kind, other_task_id: p.to_id }),
)

/** Relates two tasks. */
export const insertRelation = async (
  { db }: TransactionContext,
  { stored }: ChangeableRelation,
  newRowId: string,
): Promise<void> => {
  await insert(db, { id: newRowId, ...rowValues(stored) })
}

const remove = builtStatement('task_relations.delete', rowParameters, (db, p) =>
  db
    .delete(taskRelations)
    .where(
      and(
        eq(taskRelations.task_id, p.from_id),
        eq(taskRelations.kind, p.kind),
        eq(taskRelations.other_task_id, p.to_id),
      ),
    ),
)

/** Removes a relation. */
export const removeRelation = async (
  { db }: TransactionContext,
  { stored }: ChangeableRelation,
): Promise<void> => {
  await remove(db, rowValues(stored))
}

/** The filter and the expansions of a list of relations. */
export interface RelationFilter {
  readonly kind?: readonly RelationKind[]
  readonly expand?: readonly RelationExpansion[]
}

const filterFields = { kind: filterOneOf('text', item.kind) }

/** A page of a task's relations to tasks that the caller can see, the newest first; if they can see the task. */
export const selectRelations = (
  ctx: StatementContext<Principal>,
  taskId: string,
  { kind: kinds, expand = [] }: RelationFilter,
  page: PageRequest,
): Promise<Page | null> => {
  const taskParameter = parameter('task_id', 'uuid')
  // Each relation, as seen from the task.
  const sides = sql`(
    select ${relation.id}, ${relation.kind} as kind, ${relation.other_task_id} as related_id, ${relation.created_at}
    from task_relations relation where ${relation.task_id} = ${taskParameter}
    union all
    select ${relation.id}, inverse_relation_kind(${relation.kind}),
      ${relation.task_id}, ${relation.created_at}
    from task_relations relation where ${relation.other_task_id} = ${taskParameter}) item`
  return selectPageOf(
    ctx,
    {
      name: expand.length > 0 ? 'expanded task_relations' : 'task_relations',
      table: taskRelations,
      from: sql`${sides} join tasks task on ${task.id} = ${taskParameter} join tasks related on ${related.id} = ${item}.related_id`,
      branches: (caller) =>
        onlyBranch(
          sql`${allowsTask('task.see', caller, task)} and ${allowsTask('task.see', caller, related)}`,
        ),
      values: { task_id: taskId },
      filters: conditionsOf(filterFields, { ...(kinds !== undefined && { kind: kinds }) }),
      ...newest,
      json: (row, caller) => relationJson(row, expand, caller),
    },
    page,
    () => isTaskVisible(ctx, taskId),
  )
}
