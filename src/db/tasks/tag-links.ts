import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsTaskTag } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { ofAnyLength, parameter, type Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { statement, type StatementName } from '../statements/statement.ts'
import { newest, selectPageOf } from '../lists/list.ts'
import { tagJson } from '../shared/read-models.ts'
import { recordUntagged, type TaskTag } from '../shared/record-event.ts'
import { aliasedTable, type SQL, sql } from '../schema/drizzle.ts'
import { tags, tasks, taskTags } from '../schema/tables.ts'
import { touchTasks } from './facts.ts'
import { isTaskVisible } from './visibility.ts'

/** Links of tasks and tags, of which the writer of a task, or of a tag, holds the lock of the task. */

const task = aliasedTable(tasks, 'task')
const item = aliasedTable(tags, 'item')
const link = aliasedTable(taskTags, 'link')
const linkParameters = { task_ids: 'uuid[]', tag_ids: 'uuid[]' } as const

const idsOf = (links: readonly TaskTag[]) => ({
  task_ids: links.map(({ taskId }) => taskId),
  tag_ids: links.map(({ tagId }) => tagId),
})

const deleteLinks = builtStatement('task_tags.delete_links', linkParameters, (db, p) =>
  db
    .delete(taskTags)
    .where(
      sql`(${taskTags.task_id}, ${taskTags.tag_id}) in (select * from unnest(${ofAnyLength(p.task_ids)}, ${p.tag_ids}))`,
    ),
)

/** Removes tags from locked tasks. The viewers of the tasks must not change before: their counts are corrected. */
export const removeLinks = async (
  { db }: Pick<TransactionContext, 'db'>,
  links: readonly TaskTag[],
): Promise<void> => {
  await deleteLinks(db, idsOf(links))
}

const insertLinks = statement(
  'task_tags.insert_links',
  linkParameters,
  {},
  (p) => sql`
    insert into task_tags (task_id, tag_id)
    select task_id, tag_id from unnest(${p.task_ids}, ${p.tag_ids}) as added (task_id, tag_id) order by task_id, tag_id
    on conflict do nothing`,
)

/** Adds tags to locked tasks, before the viewers of the tasks change. */
export const addLinks = async (
  { db }: Pick<TransactionContext, 'db'>,
  links: readonly TaskTag[],
): Promise<void> => {
  await insertLinks(db, idsOf(links))
}

/**
 * A step that takes deleted tags, those of a condition on `link.tag_id`, from up to `limit` tasks, and counts the links. Tasks that
 * another transaction has locked are left to a later step.
 */
export const untagging = (
  name: StatementName,
  condition: (p: Placeholders<{ readonly id: 'uuid' }>) => SQL,
  limit: number,
): ((tx: Pick<TransactionContext, 'db'>, values: { readonly id: string }) => Promise<number>) => {
  const lockLinks = statement(
    name,
    { id: 'uuid' },
    { task_id: 'text', tag_id: 'text' },
    (p) => sql`
      select link.task_id::text, link.tag_id::text from task_tags link join tasks task on task.id = link.task_id
      where ${condition(p)} limit ${sql.raw(String(limit))}
      for no key update of task, link skip locked`,
  )
  return async (tx, values) => {
    const rows = await lockLinks(tx.db, values)
    if (rows.length === 0) return 0
    const links = rows.map(({ task_id, tag_id }) => ({ taskId: task_id, tagId: tag_id }))
    await pipeline(tx.db, {
      links: () => removeLinks(tx, links),
      tasks: () => touchTasks(tx, idsOf(links).task_ids),
      untagged: () => recordUntagged(tx, links),
    })
    return rows.length
  }
}

/** A page of a task's tags, if the caller can see the task. */
export const selectTaskTags = (
  ctx: StatementContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Page | null> =>
  selectPageOf(
    ctx,
    {
      name: 'task_tags',
      table: tags,
      from: sql`tags item join task_tags link on ${link.tag_id} = ${item.id} and ${item.deleted_at} is null join tasks task on ${task.id} = ${link.task_id}`,
      branches: (caller) =>
        onlyBranch(
          sql`${task.id} = ${parameter('task_id', 'uuid')} and ${allowsTaskTag('task_tag.see', caller, task)}`,
        ),
      values: { task_id: taskId },
      ...newest,
      json: tagJson,
    },
    page,
    () => isTaskVisible(ctx, taskId),
  )
