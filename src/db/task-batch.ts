import { withoutVariant } from '../domain/entity-tags.ts'
import type { BatchKind, BatchResult, TaskBatch } from '../domain/task-batch.ts'
import type { Principal } from '../domain/permissions.ts'
import type { OpContext } from './engine/context.ts'
import { creation, expectCreated } from './engine/creation.ts'
import { newId } from './engine/ids.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import {
  checkedChanges,
  checkedCreations,
  checkedDeletions,
  checkedLinks,
  checkedUnlinks,
  deleteLinks,
  insertLinks,
  insertTagsOfTasks,
  insertTasks,
  lockPeople,
  lockTags,
  lockTasks,
  peopleOfChanges,
  peopleOfCreations,
  readItemOutcome,
  touchTasks,
  trashTasks,
  updateTasks,
} from './task-writes.ts'
import type { NewTask, TaskPatch } from './tasks.ts'

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

/** The items of one kind, with their places. */
const items = (batch: SQL, kind: BatchKind, columns: SQL): SQL => sql`
  select (place - 1)::int as index, ${columns}
  from jsonb_array_elements(${batch} -> ${sql.raw(`'${kind}'`)}) with ordinality items (item, place)`

const taskId = sql`(item ->> 'task_id')::uuid as task_id`
const tagId = sql`(item ->> 'tag_id')::uuid as tag_id`
const ifMatch = sql`case when item ? 'if_match' then array[item ->> 'if_match'] end as if_match`

const applies = sql`outcome = 'done' and applies`

/**
 * Checks every item, decides, and writes: one statement, and so all of it or nothing of each item. The parts are those of
 * the single operations.
 */
const run = creation(
  'task_batch.run',
  { request_id: 'text', atomic: 'bool', dry_run: 'bool', batch: 'json' },
  { json: 'text' },
  (p) => ({
    parts: sql`
      creations as (
        ${items(
          p.batch,
          'create',
          sql`item, (item ->> 'id')::uuid as id, (item ->> 'owner_id')::uuid as owner_id,
            array(select jsonb_array_elements_text(item -> 'tag_ids')::uuid) as tag_ids`,
        )}
      ), changes as (
        ${items(p.batch, 'update', sql`${taskId}, ${ifMatch}, item -> 'patch' as patch`)}
      ), deletions as (
        ${items(p.batch, 'delete', sql`${taskId}, ${ifMatch}`)}
      ), links as (
        ${items(p.batch, 'tag', sql`${taskId}, ${tagId}`)}
      ), unlinks as (
        ${items(p.batch, 'untag', sql`${taskId}, ${tagId}, ${ifMatch}`)}
      ), people as (
        ${lockPeople(sql`${peopleOfCreations} union ${peopleOfChanges}`)}
      ), visible_tags as (
        ${lockTags(p, sql`select unnest(tag_ids) from creations union select tag_id from links`)}
      ), targets as (
        ${lockTasks(
          p,
          sql`
            select task_id from changes union select task_id from deletions
            union select task_id from links union select task_id from unlinks`,
        )}
      ), creation as (
        ${checkedCreations(p)}
      ), change as (
        ${checkedChanges(p)}
      ), deletion as (
        ${checkedDeletions(p)}
      ), link as (
        ${checkedLinks(p)}
      ), unlink as (
        ${checkedUnlinks(p)}
      ), outcomes as (
        select 'create' as kind, index, outcome, id, unknown_tag from creation
        union all select 'update', index, outcome, id, null from change
        union all select 'delete', index, outcome, id, null from deletion
        union all select 'tag', index, outcome, id, null from link
        union all select 'untag', index, outcome, id, null from unlink
      ), decision as (
        select not ${p.dry_run} and (not ${p.atomic} or bool_and(outcome = 'done')) as applies from outcomes
      ), inserted as (
        ${insertTasks(sql`creation, decision where ${applies}`)} returning id, version
      ), tagged as (
        ${insertTagsOfTasks(sql`creation cross join decision`)} where ${applies}
      ), updated as (
        ${updateTasks(sql`change, decision`, applies)} returning task.id, task.version
      ), trashed as (
        ${trashTasks(sql`deletion, decision`, applies)}
      ), linked as (
        ${insertLinks(sql`link, decision`, applies)} returning task_id
      ), touched as (
        ${touchTasks(sql`select task_id from linked`)}
      ), unlinked as (
        ${deleteLinks(sql`unlink, decision`, applies)}
      ), versions as (
        select id, version from inserted union all select id, version from updated
      ), answer as (
        select ${p.id} as id, json_build_object('request_id', ${p.request_id}, 'results', json_agg(
          json_build_object('kind', kind, 'index', index, 'outcome', outcome, 'id', versions.id, 'version', version,
            'unknown_tag', unknown_tag) order by kind, index))::text as json
        from outcomes left join versions using (id)
      ), created as (
        select answer.* from answer, decision where applies
      )`,
    select: sql`select json from answer`,
  }),
)

/** Runs a batch that has at least one item, and no two about the same thing. `prepare` is called only if it is no repeat. */
export const runTaskBatch = async (
  ctx: OpContext<Principal>,
  batch: TaskBatch<NewTask, TaskPatch>,
  { atomic, dryRun }: BatchOptions,
  prepare: () => Promise<void>,
): Promise<BatchAnswer> => {
  const { json, replayed } = await run(ctx, async () => {
    await prepare()
    return {
      request_id: ctx.client.requestId,
      atomic,
      dry_run: dryRun,
      batch: {
        create: (batch.create ?? []).map(ownedBy(ctx.principal.userId)),
        update: (batch.update ?? []).map(withoutQuotes),
        delete: (batch.delete ?? []).map(withoutQuotes),
        tag: batch.tag ?? [],
        untag: (batch.untag ?? []).map(withoutQuotes),
      },
    }
  }).then(expectCreated)
  return { ...readAnswer(json, batch), replayed }
}

/** A new task with all that its creation needs; whoever creates it owns it unless it says otherwise. */
const ownedBy =
  (userId: string) =>
  ({ owner_id = userId, tag_ids = [], ...task }: NewTask) => ({ ...task, id: newId(), owner_id, tag_ids })

/** The entity tag as the database compares it. */
const withoutQuotes = <T extends { readonly if_match?: string }>({ if_match, ...item }: T) => ({
  ...item,
  ...(if_match !== undefined && { if_match: withoutVariant(if_match.slice(1, -1)) }),
})

/** An item's result as the statement says it. */
interface ItemResult {
  readonly kind: BatchKind
  readonly index: number
  readonly outcome: string
  readonly id: string | null
  readonly version: number | null
  readonly unknown_tag: string | null
}

const readAnswer = (
  json: string,
  { create }: TaskBatch<NewTask, TaskPatch>,
): Omit<BatchAnswer, 'replayed'> => {
  const { request_id: requestId, results } = JSON.parse(json) as {
    readonly request_id: string
    readonly results: readonly ItemResult[]
  }
  const readResult = (result: ItemResult): BatchResult => {
    const { kind, index, version } = result
    const outcome = readItemOutcome(result, create?.[index]?.tag_ids)
    const id = kind === 'create' && outcome.outcome === 'done' ? result.id : null
    return { kind, index, id, version, refusal: outcome.outcome === 'done' ? null : outcome }
  }
  return { requestId, results: results.map(readResult) }
}
