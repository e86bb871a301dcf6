import type { Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsTaskTag } from './access/permissions.ts'
import type { OpContext } from './engine/context.ts'
import { outcomeOfCreation, outcomeOfDeletion, readOutcome } from './engine/outcome.ts'
import { parameter } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  pageIfVisible,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { tagJson } from './read-models.ts'
import { sql } from './schema/drizzle.ts'
import { isTaskVisible } from './task-pages.ts'
import {
  linkOutcome,
  lockTags,
  lockTasks,
  touchTasks,
  unlinkOutcome,
  versionAfterTrigger,
} from './task-writes.ts'

const target = sql.raw('target')
const task = sql.raw('task')

const taskTagColumns = { outcome: 'text', version: 'int' } as const

/** A task whose tags have changed. */
interface TaskVersion {
  readonly version: number
}

const link = query(
  'task_tags.insert',
  { task_id: 'uuid', tag_id: 'uuid' },
  taskTagColumns,
  (p) => sql`
    with visible_tags as (
      ${lockTags(p, p.tag_id)}
    ), target as (
      ${lockTasks(p, p.task_id)}
    ), link as (
      select id, version, ${linkOutcome(p, target, p.tag_id)} as outcome from target
    ), linked as (
      insert into task_tags (task_id, tag_id) select id, ${p.tag_id} from link where outcome = 'done'
      on conflict do nothing returning task_id
    ), touched as (
      ${touchTasks(sql`select task_id from linked`)} returning task.version
    )
    select ${outcomeOfCreation(p, sql`exists (select from linked)`)} as outcome,
      coalesce((select version from touched), version) as version
    from link`,
)

/** A link between a task and a tag. */
export interface TaskTag {
  readonly taskId: string
  readonly tagId: string
}

/** Adds a tag that the caller can see to a task. Does nothing if the task has it. */
export const insertTaskTag = async (
  ctx: OpContext,
  { taskId, tagId }: TaskTag,
): Promise<Outcome<TaskVersion>> => {
  const [row] = await link(ctx, { task_id: taskId, tag_id: tagId })
  return readOutcome(row)
}

const unlink = query('task_tags.delete', { task_id: 'uuid', tag_id: 'uuid' }, taskTagColumns, (p) => {
  const isLinked = sql`exists (select from task_tags where task_id = target.id and tag_id = ${p.tag_id})`
  return sql`
    with target as (
      ${lockTasks(p, p.task_id)}
    ), unlink as (
      select id, ${versionAfterTrigger(target)} as version,
        ${unlinkOutcome(p, target, { isLinked, ifMatch: p.if_match })} as outcome
      from target
    ), deleted as (
      delete from task_tags using unlink
      where task_id = unlink.id and tag_id = ${p.tag_id} and outcome = 'done' returning tag_id
    )
    select ${outcomeOfDeletion(sql`deleted.tag_id is null`)} as outcome, version
    from unlink left join deleted on true`
})

/** Removes a tag from a task; `missing` if the task does not have it. If-Match refers to the task. */
export const deleteTaskTag = async (
  ctx: OpContext,
  { taskId, tagId }: TaskTag,
): Promise<Outcome<TaskVersion>> => {
  const [row] = await unlink(ctx, { task_id: taskId, tag_id: tagId })
  return readOutcome(row)
}

/** A page of a task's tags, if the caller can see the task. */
export const selectTaskTags = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const tags = await selectPage(
    ctx.db,
    {
      name: 'task_tags',
      from: sql`tags item join task_tags link on link.tag_id = item.id and item.deleted_at is null join tasks task on task.id = link.task_id`,
      branches: (caller) =>
        onlyBranch(
          sql`task.id = ${parameter('task_id', 'uuid')} and ${allowsTaskTag('task_tag.see', caller, task)}`,
        ),
      values: { task_id: taskId },
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => tagJson(row),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(tags, () => isTaskVisible(ctx, taskId))
}
