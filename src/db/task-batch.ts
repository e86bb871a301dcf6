import { replacingOtherKind } from '../domain/dates.ts'
import { withoutVariant } from '../domain/entity-tags.ts'
import { type BatchKind, batchKinds, type BatchResult, type TaskBatch } from '../domain/task-batch.ts'
import type { Principal } from '../domain/permissions.ts'
import { positionOfNew } from '../domain/positions.ts'
import { allowsTask } from './access/permissions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { creation, expectCreated } from './engine/creation.ts'
import { newId } from './engine/ids.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import {
  changeOutcome,
  checkedCreations,
  checkSubtaskCount,
  creationsOf,
  createNamedTags,
  deletionOutcome,
  insertTagsOfTasks,
  insertTasks,
  joinUnknownTag,
  linkOutcome,
  lockReferences,
  lockTasksOfTrees,
  lockTrees,
  parentsOfCreations,
  patchChanges,
  patchedFields,
  readItemOutcome,
  referencesOfCreations,
  referencesOfPatches,
  replaceTags,
  tagsInPatch,
  treesOfPatches,
  unlinkOutcome,
  updateTasks,
  withPlace,
} from './task-writes.ts'
import { newNamedTag, type NewTask, type TaskPatch, withPosition } from './tasks.ts'

/** The mode of a batch. */
export interface BatchOptions {
  /** Whether all items fail if one does. */
  readonly atomic: boolean
  /** Whether the batch is only checked: nothing is written, and the results show what would happen. */
  readonly dryRun: boolean
}

/** The result of a batch. */
export interface BatchResponse {
  /** The id of the request that ran the batch: this one, or an earlier one with the same Idempotency-Key. */
  readonly requestId: string
  readonly results: readonly BatchResult[]
  readonly replayed: boolean
}

/** The kinds of items that write existing tasks, in the order in which they are processed. */
const kindsInOrder = batchKinds.filter((kind) => kind !== 'create')

/** New tasks, with their positions. */
const creationItems = (batch: SQL): SQL => sql`
  select (place - 1)::int as index, item, (item ->> 'id')::uuid as id, (item ->> 'owner_id')::uuid as owner_id,
    array(select jsonb_array_elements_text(item -> 'tag_ids')::uuid) as tag_ids, item -> 'tag_names' as tag_names
  from jsonb_array_elements(${batch} -> 'create') with ordinality items (item, place)`

/** The other items, with their positions. `step` numbers the items of one task. */
const operationItems = (batch: SQL): SQL => sql`
  select kind, (place - 1)::int as index, (item ->> 'task_id')::uuid as task_id, (item ->> 'tag_id')::uuid as tag_id,
    item -> 'patch' as patch, case when item ? 'if_match' then array[item ->> 'if_match'] end as if_match,
    row_number() over (partition by (item ->> 'task_id')::uuid order by kind_place, place) as step
  from unnest(string_to_array(${sql.raw(`'${kindsInOrder.join(' ')}'`)}, ' ')) with ordinality kinds (kind, kind_place),
    jsonb_array_elements(${batch} -> kind) with ordinality items (item, place)`

const state = sql.raw('state')
const operation = {
  tagId: sql`operation.tag_id`,
  patch: sql`operation.patch`,
  ifMatch: sql`operation.if_match`,
}

/**
 * The states of each task: before the batch (step 0), and after each of its items. An item sees the changes of earlier items. A row
 * can be written only once per statement, so the changes are collected in `patch` and `tag_ids`. A failed item changes nothing.
 */
const walkedStates = (p: ContextPlaceholders): SQL => sql`
  select id, 0::bigint as step, null::text as kind, null::int as index, null::text as outcome, null::text as unknown_tag,
    version, '{}'::jsonb as patch, tags_of_task(id) as tag_ids, status <> 'done' as was_open, false as is_deleted
  from targets
  union all
  select before.id, operation.step, operation.kind, operation.index, outcome, unknown_tag,
    before.version + (
      coalesce(${patchChanges(sql`next.patch`, state)}, false) or next.tag_ids <> before.tag_ids
      or next.is_deleted <> before.is_deleted
    )::int,
    before.patch || (next.patch - 'tag_ids'), next.tag_ids,
    before.was_open or coalesce(next.patch ->> 'status' <> 'done', false), next.is_deleted
  from (select id, step, version, patch, tag_ids, was_open, is_deleted from walked) before
    join operations operation on operation.task_id = before.id and operation.step = before.step + 1
    join targets target on target.id = before.id
    cross join lateral (
      select target.id, before.version, target.subtask_count, ${patchedFields(sql`before.patch`, sql`target`)},
        case when before.is_deleted then now() end as deleted_at
    ) state
    ${joinUnknownTag(tagsInPatch(operation.patch))}
    cross join lateral (
      select case
        when ${allowsTask('task.see', p, state)} is not true then 'missing'
        when operation.kind = 'update' then ${changeOutcome(p, state, operation)}
        when operation.kind = 'tag' then ${linkOutcome(p, state, operation.tagId)}
        when operation.kind = 'untag' then ${unlinkOutcome(p, state, {
          isLinked: sql`${operation.tagId} = any(before.tag_ids)`,
          ifMatch: operation.ifMatch,
        })}
        else ${deletionOutcome(p, state, operation.ifMatch)} end as outcome
    ) checked
    cross join lateral (
      select case when outcome = 'done' and kind = 'update' then ${withPlace(operation.patch, state)} else '{}' end as patch,
        case
          when outcome <> 'done' then before.tag_ids
          when kind = 'update' then coalesce(${tagsInPatch(operation.patch)}, before.tag_ids)
          when kind = 'tag' then array(select unnest(before.tag_ids) union select ${operation.tagId} order by 1)
          when kind = 'untag' then array_remove(before.tag_ids, ${operation.tagId})
          else before.tag_ids end as tag_ids,
        before.is_deleted or (outcome = 'done' and kind = 'delete') as is_deleted
    ) next`

const applies = sql`outcome = 'done' and applies`

/** The changes of items to trees of tasks. */
const written = treesOfPatches(sql`operations`)

/** The tasks that are moved or deleted with their subtasks. */
const roots = sql`${written.roots} union all select task_id from operations where kind = 'delete'`

const referencesOfUpdates = referencesOfPatches(sql`operations`)

/** What the items refer to. */
const references = {
  people: sql`${referencesOfCreations.people} union ${referencesOfUpdates.people}`,
  projects: sql`${referencesOfCreations.projects} union ${referencesOfUpdates.projects}`,
  sections: sql`${referencesOfCreations.sections} union ${referencesOfUpdates.sections}`,
  tags: sql`
            ${referencesOfCreations.tags} union select tag_id from operations
            union select unnest(${tagsInPatch(sql`patch`)}) from operations`,
}

/**
 * Checks every item, decides, and writes, in one statement, so that each item is written completely or not at all. The parts are
 * those of the single operations.
 */
const run = creation(
  'task_batch.run',
  { request_id: 'text', atomic: 'bool', dry_run: 'bool', batch: 'json' },
  { json: 'text' },
  (p) => ({
    // The first word follows WITH.
    parts: sql`recursive
      new_tasks as (
        ${creationItems(p.batch)}
      ), operations as (
        ${operationItems(p.batch)}
      ), ${lockTrees(p, {
        tasks: sql`select task_id from operations`,
        parents: sql`${parentsOfCreations(sql`new_tasks`)} union all ${written.parents}`,
        roots,
      })}, creations as (
        ${creationsOf(sql`select * from new_tasks`)}
      ), ${lockReferences(p, references)}, targets as (
        ${lockTasksOfTrees(p, sql`select task_id from operations`)}
      ), ${checkSubtaskCount(sql`
        select id from targets
        where subtask_count > 0 and id in (${roots})`)}, creation as (
        ${checkedCreations(p)}
      ), walked as (
        ${walkedStates(p)}
      ), outcomes as (
        select 'create' as kind, index, outcome, id, 1 as version, unknown_tag from creation
        union all
        select operation.kind, operation.index, coalesce(outcome, 'missing'), null,
          case when operation.kind <> 'delete' then walked.version end, unknown_tag
        from operations operation left join walked on walked.id = operation.task_id and walked.step = operation.step
      ), decision as (
        select not ${p.dry_run} and (not ${p.atomic} or bool_and(outcome = 'done')) as applies from outcomes
      ), inserted as (
        ${insertTasks(sql`creation, decision where ${applies}`)}
      ), ${createNamedTags(p, sql`(select creation.* from creation, decision where ${applies}) creation`)}, tagged as (
        ${insertTagsOfTasks(sql`creation, decision where ${applies}`)}
      ), change as (
        select distinct on (id) walked.* from walked, decision where applies
        order by id, walked.step desc
      ), replaced as materialized (
        ${replaceTags(sql`
          select change.id as task_id, change.tag_ids from change join walked before on before.id = change.id
          where before.step = 0 and change.tag_ids <> before.tag_ids`)}
      ), updated as (
        ${updateTasks({
          from: sql`change cross join replaced`,
          condition: sql`change.version > task.version`,
          completedBefore: sql`case when not change.was_open then task.completed_at end`,
          columns: {
            version: sql`change.version`,
            deleted_at: sql`case when change.is_deleted then now() end`,
          },
        })}
      ), answer as (
        select ${p.id} as id, json_build_object('request_id', ${p.request_id}, 'results', json_agg(
          json_build_object('kind', kind, 'index', index, 'outcome', outcome,
            'id', case when ${applies} then id end, 'version', case when ${applies} then version end,
            'unknown_tag', unknown_tag) order by kind, index))::text as json
        from outcomes, decision
      ), created as (
        select answer.* from answer, decision where applies
      )`,
    select: sql`select json from answer`,
  }),
)

/** Runs a batch with at least one item. `checkQuota` is not called for a replay. */
export const runTaskBatch = async (
  ctx: OpContext<Principal>,
  batch: TaskBatch<NewTask, TaskPatch>,
  { atomic, dryRun }: BatchOptions,
  checkQuota: () => Promise<void>,
): Promise<BatchResponse> => {
  const { json, replayed } = await run(ctx, async () => {
    await checkQuota()
    return {
      request_id: ctx.client.requestId,
      atomic,
      dry_run: dryRun,
      batch: {
        create: (batch.create ?? []).map(ownedBy(ctx.principal.userId)),
        update: (batch.update ?? []).map(withoutQuotes).map(replacingDates),
        delete: (batch.delete ?? []).map(withoutQuotes),
        tag: batch.tag ?? [],
        untag: (batch.untag ?? []).map(withoutQuotes),
      },
    }
  }).then(expectCreated)
  return { ...readResponse(json, batch), replayed }
}

/** A new task with all values for its creation. The owner is the caller by default. */
const ownedBy =
  (userId: string) =>
  ({ owner_id = userId, tag_ids = [], tag_names = [], ...task }: NewTask) => {
    const id = newId()
    return {
      ...task,
      id,
      position: positionOfNew(id),
      owner_id,
      tag_ids,
      tag_names: tag_names.map(newNamedTag),
    }
  }

const replacingDates = <T extends { readonly patch: TaskPatch }>({ patch, ...item }: T) => ({
  ...item,
  patch: withPosition(replacingOtherKind(patch)),
})

/** Removes the quotes of the entity tag, for the comparison in SQL. */
const withoutQuotes = <T extends { readonly if_match?: string }>({ if_match, ...item }: T) => ({
  ...item,
  ...(if_match !== undefined && { if_match: withoutVariant(if_match.slice(1, -1)) }),
})

/** The result of an item in the statement's JSON. */
interface ItemResult {
  readonly kind: BatchKind
  readonly index: number
  readonly outcome: string
  readonly id: string | null
  readonly version: number | null
  readonly unknown_tag: string | null
}

const readResponse = (
  json: string,
  { create, update }: TaskBatch<NewTask, TaskPatch>,
): Omit<BatchResponse, 'replayed'> => {
  const { request_id: requestId, results } = JSON.parse(json) as {
    readonly request_id: string
    readonly results: readonly ItemResult[]
  }
  const readResult = (result: ItemResult): BatchResult => {
    const { kind, index, version } = result
    const tagIds = kind === 'create' ? create?.[index]?.tag_ids : update?.[index]?.patch.tag_ids
    const outcome = readItemOutcome(result, tagIds)
    return { kind, index, id: result.id, version, refusal: outcome.outcome === 'done' ? null : outcome }
  }
  return { requestId, results: results.map(readResult) }
}
