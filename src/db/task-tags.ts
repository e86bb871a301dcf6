import { done, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsTaskTag } from './access/permissions.ts'
import type { OpContext } from './engine/context.ts'
import { readOutcome } from './engine/outcome.ts'
import { parameter, type Row } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { tagJson } from './read-models.ts'
import { sql } from './schema/drizzle.ts'
import {
  checkedLinks,
  checkedUnlinks,
  deleteLinks,
  insertLinks,
  lockTags,
  lockTasks,
  touchTasks,
  versionAfterTrigger,
} from './task-writes.ts'

const task = sql.raw('task')

const taskTagColumns = { outcome: 'text', version: 'int?' } as const

/** A task whose tags have changed. */
interface TaskVersion {
  readonly version: number
}

const link = query(
  'task_tags.insert',
  { task_id: 'uuid', tag_id: 'uuid' },
  taskTagColumns,
  (p) => sql`
    with links as (
      select 0 as index, ${p.task_id} as task_id, ${p.tag_id} as tag_id
    ), visible_tags as (
      ${lockTags(p, sql`select tag_id from links`)}
    ), targets as (
      ${lockTasks(p, sql`select task_id from links`)}
    ), link as (
      ${checkedLinks(p)}
    ), linked as (
      ${insertLinks(sql`link`, sql`outcome = 'done'`)} returning task_id
    ), touched as (
      ${touchTasks(sql`select task_id from linked`)} returning task.version
    )
    select outcome, coalesce((select version from touched), (select version from targets)) as version from link`,
)

/** A link between a task and a tag. */
export interface TaskTag {
  readonly taskId: string
  readonly tagId: string
}

/** Puts a tag that the caller can see on a task; nothing changes when it is there already. */
export const insertTaskTag = async (
  ctx: OpContext,
  { taskId, tagId }: TaskTag,
): Promise<Outcome<TaskVersion>> => {
  const [row] = await link(ctx, { task_id: taskId, tag_id: tagId })
  return readVersion(row)
}

const readVersion = (row: Row<typeof taskTagColumns> | undefined): Outcome<TaskVersion> => {
  const result = readOutcome(row)
  if (result.outcome !== 'done') return result
  const { version } = result.value
  return version === null ? missing : done({ version })
}

const unlink = query(
  'task_tags.delete',
  { task_id: 'uuid', tag_id: 'uuid' },
  taskTagColumns,
  (p) => sql`
    with unlinks as (
      select 0 as index, ${p.task_id} as task_id, ${p.tag_id} as tag_id, ${p.if_match} as if_match
    ), targets as (
      ${lockTasks(p, sql`select task_id from unlinks`)}
    ), unlink as (
      ${checkedUnlinks(p)}
    ), deleted as (
      ${deleteLinks(sql`unlink`, sql`outcome = 'done'`)} returning task_tags.tag_id
    )
    select case when outcome = 'done' and deleted.tag_id is null then 'missing' else outcome end as outcome,
      (select ${versionAfterTrigger(sql`targets`)} from targets) as version
    from unlink left join deleted on true`,
)

/** Takes a tag off a task. A link that does not exist is missing. If-Match is about the task. */
export const deleteTaskTag = async (
  ctx: OpContext,
  { taskId, tagId }: TaskTag,
): Promise<Outcome<TaskVersion>> => {
  const [row] = await unlink(ctx, { task_id: taskId, tag_id: tagId })
  return readVersion(row)
}

const seesTask = query(
  'task_tags.check_task',
  { task_id: 'uuid' },
  {},
  (p) => sql`select from tasks task where id = ${p.task_id} and ${allowsTaskTag('task_tag.see', p, task)}`,
)

/** A page of a task's tags, if the caller can see the task. */
export const selectTaskTags = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const found = await selectPage(
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
  // A page with items proves that the task is seen; an empty one has to ask.
  if (found.items === '[]' && (await seesTask(ctx, { task_id: taskId })).length === 0) return missing
  return { outcome: 'done', value: found }
}
