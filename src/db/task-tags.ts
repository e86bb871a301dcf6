import { missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { sql } from './engine/drizzle.ts'
import { tagJson } from './read-models.ts'
import {
  createdAt,
  filterBy,
  conditionsOf,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { checkedOutcome, ifMatchParameter, readOutcome } from './engine/outcome.ts'
import { allowsTag, allowsTask, allowsTaskTag, callerOf, callerParameters } from './access/permissions.ts'
import { onlyRow, statement } from './engine/statement.ts'

const task = sql.raw('task')

const link = statement(
  { task_id: 'uuid', tag_id: 'uuid', ...callerParameters },
  { outcome: 'text' },
  (p) => sql`
    with target as (
      select * from tasks task where id = ${p.task_id} and ${allowsTask('task.see', p, task)} for no key update
    ), checked as (
      select target.id, tag.id as tag_id,
        case when ${allowsTaskTag('task_tag.change', p, sql`target`)} then 'done' else 'forbidden' end as outcome
      from target join tags tag on tag.id = ${p.tag_id} and ${allowsTag('tag.see', p, sql`tag`)}
    ), linked as (
      insert into task_tags (task_id, tag_id) select id, tag_id from checked where outcome = 'done'
      on conflict do nothing returning task_id
    ), touched as (
      update tasks set version = version + 1 from linked where tasks.id = linked.task_id
    )
    select outcome from checked`,
)

/** Puts a tag that the principal sees on a task; nothing changes when it is there already. */
export const insertTaskTag = async (
  db: Database,
  principal: Principal,
  taskId: string,
  tagId: string,
): Promise<Outcome<unknown>> =>
  readOutcome(onlyRow(await link(db, { task_id: taskId, tag_id: tagId, ...callerOf(principal) })))

const unlink = statement(
  { task_id: 'uuid', tag_id: 'uuid', ...callerParameters, ...ifMatchParameter },
  { outcome: 'text' },
  (p) => sql`
    with target as (
      select * from tasks task where id = ${p.task_id} and ${allowsTask('task.see', p, task)} for no key update
    ), checked as (
      select task_tags.task_id, task_tags.tag_id, ${checkedOutcome(
        allowsTaskTag('task_tag.change', p, sql`target`),
        sql`target.version::text`,
        p.if_match,
      )} as outcome
      from target join task_tags on task_tags.task_id = target.id and task_tags.tag_id = ${p.tag_id}
    ), unlinked as (
      delete from task_tags using checked
      where task_tags.task_id = checked.task_id and task_tags.tag_id = checked.tag_id and checked.outcome = 'done'
      returning task_tags.tag_id
    )
    select case when outcome = 'done' and unlinked.tag_id is null then 'missing' else outcome end as outcome
    from checked left join unlinked on true`,
)

/** Takes a tag off a task. A link that is not there is missing. `ifMatch` holds ETags of the task. */
export const deleteTaskTag = async (
  db: Database,
  principal: Principal,
  taskId: string,
  tagId: string,
  ifMatch: readonly string[] | null,
): Promise<Outcome<unknown>> =>
  readOutcome(
    onlyRow(await unlink(db, { task_id: taskId, tag_id: tagId, ...callerOf(principal), if_match: ifMatch })),
  )

const seesTask = statement(
  { task_id: 'uuid', ...callerParameters },
  {},
  (p) => sql`select from tasks task where id = ${p.task_id} and ${allowsTaskTag('task_tag.see', p, task)}`,
)

const fields = { task_id: filterBy('uuid', (value) => sql`task.id = ${value}`) }

/** A page of a task's tags, if the principal sees the task. */
export const selectTaskTags = async (
  db: Database,
  principal: Principal,
  taskId: string,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const found = await selectPage(
    db,
    {
      name: 'task_tags',
      from: sql`tags item join task_tags link on link.tag_id = item.id and item.deleted_at is null join tasks task on task.id = link.task_id`,
      seenBecause: (caller) => [allowsTaskTag('task_tag.see', caller, task)],
      conditions: conditionsOf(fields, { task_id: taskId }),
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => tagJson(row),
    },
    principal,
    page,
  )
  // A page with items proves that the task is seen; an empty one has to ask.
  if (found.items === '[]' && (await seesTask(db, { task_id: taskId, ...callerOf(principal) })).length === 0)
    return missing
  return { outcome: 'done', value: found }
}
