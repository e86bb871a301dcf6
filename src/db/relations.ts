import type { Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import type { RelationExpansion } from '../domain/expansions.ts'
import type { RelationKind, StoredRelation } from '../domain/relations.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsTask } from './access/permissions.ts'
import { conditionsOf, filterOneOf } from './engine/conditions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { ConstraintViolation } from './engine/errors.ts'
import { newId } from './engine/ids.ts'
import { outcomeOfCreation, outcomeOfDeletion, readOutcome } from './engine/outcome.ts'
import { parameter, type Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  pageIfVisible,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { relationJson } from './read-models.ts'
import { columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { isTaskVisible } from './task-pages.ts'
import { lockTasks, outcomeOfTaskWrite } from './task-writes.ts'

/**
 * Relations of tasks. A relation is one row, which both tasks show: see `storedRelation`. Changing it requires permission to change
 * the task in the path and to see the other one.
 */

/** Maximum number of relations of a task. The contract documents it. */
const maxRelations = 200

const target = sql.raw('target')
const relation = columnsOf<'task_relations'>(sql.raw('relation'))
const { id } = columnsOf<'tasks'>(sql.raw('task'))

const parameters = {
  task_id: 'uuid',
  related_id: 'uuid',
  from_id: 'uuid',
  kind: 'text',
  to_id: 'uuid',
} as const

/** A relation of the task in the path of a request to a related one, and its row. */
export interface Relation {
  readonly taskId: string
  readonly relatedId: string
  readonly stored: StoredRelation
}

const valuesOf = ({ taskId, relatedId, stored }: Relation) => ({
  task_id: taskId,
  related_id: relatedId,
  from_id: stored.taskId,
  kind: stored.kind,
  to_id: stored.otherTaskId,
})

/** Both tasks, locked, as `targets`; the outcome of the checks on a change of their relation, as `checked`. */
const checkedTasks = (p: Placeholders<typeof parameters> & ContextPlaceholders, outcome: SQL): SQL => sql`
  targets as (
    ${lockTasks(p, sql`${p.task_id}, ${p.related_id}`)}
  ), checked as (
    select ${outcome} as outcome from targets target
    where id = ${p.task_id} and exists (select from targets related where related.id = ${p.related_id})
  )`

const insert = query(
  'task_relations.insert',
  { ...parameters, id: 'uuid', limit: 'int' },
  { outcome: 'text', path: 'text?' },
  (p) => {
    const isRelated = sql`exists (
      select from task_relations relation where ${relation.task_id} = ${p.from_id} and ${relation.kind} = ${p.kind}
        and ${relation.other_task_id} = ${p.to_id})`
    const countOf = (taskId: typeof target) => sql`(
      select count(*) from task_relations relation where ${taskId} in (${relation.task_id}, ${relation.other_task_id}))`
    const isFull = sql`${p.limit} <= greatest(${countOf(p.task_id)}, ${countOf(p.related_id)})`
    const path = sql`blocking_path(${p.from_id}, ${p.to_id})`
    const outcome = outcomeOfTaskWrite(p, target, {
      allowed: allowsTask('task.change', p, target),
      etag: null,
      exists: isRelated,
      ifMatch: sql`null`,
      refusals: sql`
        when ${isRelated} then 'done'
        when ${isFull} then 'too_many_relations'
        when ${p.kind} = 'blocks' and ${path} is not null then 'blocking_cycle'`,
    })
    const { columns, values } = insertion<'task_relations'>({
      id: p.id,
      task_id: p.from_id,
      kind: p.kind,
      other_task_id: p.to_id,
    })
    // Tasks of the cycle that the caller cannot see are left out.
    const visiblePath = sql`(
      select string_agg(${id}::text, ',' order by ordinal)
      from unnest(${path}) with ordinality step (task_id, ordinal) join tasks task on ${id} = step.task_id
      where ${allowsTask('task.see', p, sql`task`)})`
    return sql`
      with ${checkedTasks(p, outcome)}, inserted as (
        insert into task_relations (${columns}) select ${values} from checked where outcome = 'done' on conflict do nothing
        returning id
      )
      select ${outcomeOfCreation(p, sql`exists (select from inserted)`)} as outcome, case when outcome = 'blocking_cycle' then ${visiblePath} end as path from checked`
  },
)

/** Relates two tasks that the caller can see. Does nothing if the relation exists. */
export const insertRelation = async (ctx: OpContext, which: Relation): Promise<Outcome<unknown>> => {
  try {
    const [row] = await insert(ctx, { ...valuesOf(which), id: newId(), limit: maxRelations })
    if (row?.outcome === 'blocking_cycle')
      return { outcome: 'blocking_cycle', path: row.path?.split(',') ?? [] }
    return readOutcome(row)
  } catch (error) {
    if (error instanceof ConstraintViolation && error.constraint === 'task_relations_bounded')
      return { outcome: 'too_many_blocked' }
    throw error
  }
}

const remove = query('task_relations.delete', parameters, { outcome: 'text' }, (p) => {
  const outcome = outcomeOfTaskWrite(p, target, {
    allowed: allowsTask('task.change', p, target),
    etag: null,
    ifMatch: sql`null`,
  })
  const removed = columnsOf<'task_relations'>(sql`task_relations`)
  return sql`
    with ${checkedTasks(p, outcome)}, deleted as (
      delete from task_relations using checked
      where ${removed.task_id} = ${p.from_id} and ${removed.kind} = ${p.kind} and ${removed.other_task_id} = ${p.to_id}
        and outcome = 'done' returning ${removed.kind}
    )
    select ${outcomeOfDeletion(sql`deleted.kind is null`)} as outcome
    from checked left join deleted on true`
})

/** Deletes a relation; `missing` if there is none. */
export const deleteRelation = async (ctx: OpContext, which: Relation): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, valuesOf(which))
  return readOutcome(row)
}

/** The filter and the expansions of a list of relations. */
interface RelationFilter {
  readonly kind?: readonly RelationKind[]
  readonly expand?: readonly RelationExpansion[]
}

const filterFields = { kind: filterOneOf('text', sql`item.kind`) }

/** A page of a task's relations to tasks that the caller can see, the newest first; if they can see the task. */
export const selectRelations = async (
  ctx: OpContext<Principal>,
  taskId: string,
  { kind: kinds, expand = [] }: RelationFilter,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const ofTask = parameter('task_id', 'uuid')
  // Each relation, as seen from the task.
  const sides = sql`(
    select ${relation.id}, ${relation.kind} as kind, ${relation.other_task_id} as related_id, ${relation.created_at}
    from task_relations relation where ${relation.task_id} = ${ofTask}
    union all
    select ${relation.id}, inverse_relation_kind(${relation.kind}),
      ${relation.task_id}, ${relation.created_at}
    from task_relations relation where ${relation.other_task_id} = ${ofTask}) item`
  const relations = await selectPage(
    ctx.db,
    {
      name: expand.length > 0 ? 'expanded task_relations' : 'task_relations',
      from: sql`${sides} join tasks task on ${id} = ${ofTask} join tasks related on related.id = item.related_id`,
      branches: (caller) =>
        onlyBranch(
          sql`${allowsTask('task.see', caller, sql`task`)} and ${allowsTask('task.see', caller, sql`related`)}`,
        ),
      values: { task_id: taskId },
      filters: conditionsOf(filterFields, { ...(kinds !== undefined && { kind: kinds }) }),
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row, caller) => relationJson(row, expand, caller),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(relations, () => isTaskVisible(ctx, taskId))
}
