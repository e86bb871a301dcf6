import { type BatchKind, type BatchResult, parseResults, type TaskBatch } from '../domain/task-batch.ts'
import type { Principal } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import {
  createOnce,
  type Created,
  type Idempotency,
  idempotencyParameters,
  idempotencyValues,
  keepAnswer,
} from './engine/idempotency.ts'
import { newId } from './engine/ids.ts'
import { checkedOutcome } from './engine/outcome.ts'
import { allowsTag, allowsTask, allowsTaskTag, callerOf, callerParameters } from './access/permissions.ts'
import { intoTrash } from './removal.ts'
import { onlyRow, statement } from './engine/statement.ts'
import {
  allowsChange,
  etagOf,
  type NewTask,
  newTaskColumns,
  newTaskValues,
  patched,
  patchedColumns,
  type TaskChange,
} from './tasks.ts'

/** How a batch is done. */
export interface BatchOptions {
  /** All of it or nothing. */
  readonly atomic: boolean
  /** Nothing is done, but it is told how it would end. */
  readonly dryRun: boolean
}

/** How a batch ended. */
export interface BatchAnswer {
  /** The request that did it: this one, or an earlier one with the same Idempotency-Key. */
  readonly requestId: string
  readonly results: readonly BatchResult[]
  readonly replayed: boolean
}

const target = sql.raw('target')

/** The items of one kind, with their places. */
const items = (batch: SQL, kind: BatchKind, columns: SQL): SQL => sql`
  select (place - 1)::int as index, ${columns}
  from jsonb_array_elements(${batch} -> ${sql.raw(`'${kind}'`)}) with ordinality items (item, place)`

const taskId = sql`(item ->> 'task_id')::uuid as task_id`
const tagId = sql`(item ->> 'tag_id')::uuid as tag_id`
const ifMatch = sql`case when item ? 'if_match' then array[item ->> 'if_match'] end as if_match`

/** The outcome of the checks on an item's task, which may not be there. */
const unlessMissing = (outcome: SQL): SQL =>
  sql`case when target.id is null then 'missing' else ${outcome} end`

const isUnknown = (user: SQL): SQL => sql`${user} is not null and ${user} not in (select id from people)`

/**
 * Checks every item, decides, and does what is to be done: one statement, and so all of it or nothing of each item.
 * Rows are locked in the order of their ids, so that two batches do not wait for each other.
 */
const run = statement(
  {
    id: 'uuid',
    request_id: 'text',
    atomic: 'bool',
    dry_run: 'bool',
    batch: 'json',
    ...callerParameters,
    ...idempotencyParameters,
  },
  { json: 'text' },
  (p) => sql`
    with creations as (
      ${items(p.batch, 'create', sql`item, (item ->> 'id')::uuid as id, (item ->> 'owner_id')::uuid as owner_id, item -> 'tag_ids' as tag_ids`)}
    ), updates as (
      ${items(p.batch, 'update', sql`${taskId}, ${ifMatch}, item -> 'patch' as patch`)}
    ), deletions as (
      ${items(p.batch, 'delete', sql`${taskId}, ${ifMatch}`)}
    ), taggings as (
      ${items(p.batch, 'tag', sql`${taskId}, ${tagId}`)}
    ), untaggings as (
      ${items(p.batch, 'untag', sql`${taskId}, ${tagId}, ${ifMatch}`)}
    ), people as (
      select id from users where id in (
        select owner_id from creations union select (item ->> 'assignee_id')::uuid from creations
        union select (patch ->> 'owner_id')::uuid from updates union select (patch ->> 'assignee_id')::uuid from updates
      ) and deleted_at is null order by id for key share
    ), seen_tags as (
      select id from tags tag where id in (
        select tag_id::uuid from creations, jsonb_array_elements_text(tag_ids) labels (tag_id) union select tag_id from taggings
      ) and ${allowsTag('tag.see', p, sql`tag`)} order by id for key share
    ), targets as (
      select * from tasks task where id in (
        select task_id from updates union select task_id from deletions
        union select task_id from taggings union select task_id from untaggings
      ) and ${allowsTask('task.see', p, sql`task`)} order by id for no key update
    ), creation as (
      select creations.*, unknown_tag, case
        when (item ->> 'due_at')::timestamptz < (item ->> 'start_at')::timestamptz then 'due_before_start'
        when owner_id <> ${p.caller} and not ${allowsTask('task.create_for_another', p, sql`creations`)} then 'forbidden'
        when unknown_tag is not null then 'unknown_tag'
        when ${isUnknown(sql`owner_id`)} then 'unknown_owner'
        when ${isUnknown(sql`(item ->> 'assignee_id')::uuid`)} then 'unknown_assignee'
        else 'done' end as outcome
      from creations left join lateral (
        select tag_id as unknown_tag from jsonb_array_elements_text(tag_ids) labels (tag_id)
        where tag_id::uuid not in (select id from seen_tags) limit 1
      ) unknown on true
    ), change as (
      select index, target.id, patch, ${unlessMissing(
        checkedOutcome(
          allowsChange(p, target, sql`patch`),
          etagOf(target),
          sql`if_match`,
          sql`
            when ${patched(sql`patch`, 'due_at', 'timestamptz', target)}
              < ${patched(sql`patch`, 'start_at', 'timestamptz', target)} then 'due_before_start'
            when ${isUnknown(sql`(patch ->> 'owner_id')::uuid`)} then 'unknown_owner'
            when ${isUnknown(sql`(patch ->> 'assignee_id')::uuid`)} then 'unknown_assignee'`,
        ),
      )} as outcome
      from updates left join targets target on target.id = task_id
    ), deletion as (
      select index, target.id, ${unlessMissing(
        checkedOutcome(allowsTask('task.delete', p, target), etagOf(target), sql`if_match`),
      )} as outcome
      from deletions left join targets target on target.id = task_id
    ), tagging as (
      select index, target.id, tag_id, case
        when target.id is null or tag_id not in (select id from seen_tags) then 'missing'
        when not ${allowsTaskTag('task_tag.change', p, target)} then 'forbidden' else 'done' end as outcome
      from taggings left join targets target on target.id = task_id
    ), untagging as (
      select index, target.id, untaggings.tag_id, case when link.tag_id is null then 'missing' else ${checkedOutcome(
        allowsTaskTag('task_tag.change', p, target),
        etagOf(target),
        sql`if_match`,
      )} end as outcome
      from untaggings left join targets target on target.id = untaggings.task_id
        left join task_tags link on link.task_id = target.id and link.tag_id = untaggings.tag_id
    ), outcomes as (
      select 'create' as kind, index, outcome, id, unknown_tag from creation
      union all select 'update', index, outcome, id, null from change
      union all select 'delete', index, outcome, id, null from deletion
      union all select 'tag', index, outcome, id, null from tagging
      union all select 'untag', index, outcome, id, null from untagging
    ), decision as (
      select not ${p.dry_run} and (not ${p.atomic} or bool_and(outcome = 'done')) as applies from outcomes
    ), created as (
      insert into tasks (${newTaskColumns}) select ${newTaskValues(sql`id`, sql`item`, sql`owner_id`)}
      from creation, decision where outcome = 'done' and applies returning id, version
    ), labelled as (
      insert into task_tags (task_id, tag_id) select distinct id, tag_id::uuid
      from creation, decision, jsonb_array_elements_text(tag_ids) labels (tag_id) where outcome = 'done' and applies
    ), changed as (
      update tasks task set ${patchedColumns(sql`change.patch`)}
      from change, decision where task.id = change.id and outcome = 'done' and applies returning task.id, task.version
    ), removed as (
      update tasks task set ${intoTrash} from deletion, decision
      where task.id = deletion.id and outcome = 'done' and applies
    ), linked as (
      insert into task_tags (task_id, tag_id) select id, tag_id from tagging, decision where outcome = 'done' and applies
      on conflict do nothing returning task_id
    ), touched as (
      update tasks set version = version + 1 where id in (select task_id from linked)
    ), unlinked as (
      delete from task_tags using untagging, decision
      where task_tags.task_id = untagging.id and task_tags.tag_id = untagging.tag_id and outcome = 'done' and applies
    ), versions as (
      select id, version from created union all select id, version from changed
    ), answer as (
      select ${p.id} as id, json_build_object('request_id', ${p.request_id}, 'results', json_agg(
        json_build_object('kind', kind, 'index', index, 'outcome', outcome, 'id', versions.id, 'version', version,
          'unknown_tag', unknown_tag) order by kind, index))::text as json
      from outcomes left join versions using (id)
    ), lasting as (
      select answer.* from answer, decision where applies
    ), kept as (
      ${keepAnswer(p, sql`lasting`)}
    )
    select json from answer`,
)

/** Does a batch of which no two items are about the same thing, and which has one at least. */
export const runTaskBatch = (
  db: Database,
  principal: Principal,
  batch: TaskBatch<NewTask, TaskChange>,
  { atomic, dryRun }: BatchOptions,
  requestId: string,
  idempotency: Idempotency | null,
  expectRoom: () => Promise<void>,
): Promise<BatchAnswer> => {
  const begin = async (): Promise<Created> => {
    await expectRoom()
    const id = newId()
    const row = onlyRow(
      await run(db, {
        id,
        request_id: requestId,
        atomic,
        dry_run: dryRun,
        batch: {
          create: (batch.create ?? []).map(ownedBy(principal.userId)),
          update: (batch.update ?? []).map(withoutQuotes),
          delete: (batch.delete ?? []).map(withoutQuotes),
          tag: batch.tag ?? [],
          untag: (batch.untag ?? []).map(withoutQuotes),
        },
        ...callerOf(principal),
        ...idempotencyValues(idempotency),
      }),
    )
    if (row === null) throw new Error('A batch answers with a row')
    return { id, json: row.json, replayed: false }
  }
  return createOnce(db, idempotency, begin, (earlier) => earlier).then(readAnswer)
}

/** A new task with all that its creation needs; whoever creates it owns it unless it says otherwise. */
const ownedBy =
  (userId: string) =>
  ({ owner_id = userId, tag_ids = [], ...task }: NewTask) => ({ ...task, id: newId(), owner_id, tag_ids })

/** The entity tag as the database compares it. */
const withoutQuotes = <T extends { readonly if_match?: string }>({ if_match, ...item }: T) => ({
  ...item,
  ...(if_match !== undefined && { if_match: if_match.slice(1, -1) }),
})

const readAnswer = ({ json, replayed }: Created): BatchAnswer => {
  const { request_id, results } = JSON.parse(json) as Readonly<Record<string, unknown>>
  return { requestId: String(request_id), results: parseResults(results), replayed }
}
