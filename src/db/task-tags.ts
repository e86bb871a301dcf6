import type { Outcome } from '../domain/outcome.ts'
import type { Authorized, Principal } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsTag, allowsTaskTag } from './access/permissions.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { OpContext, TransactionContext } from './engine/context.ts'
import { parameter, type Placeholders } from './engine/parameters.ts'
import { query, statement, type StatementName } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  pageIfVisible,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { tagJson } from './read-models.ts'
import { recordUntagged, type TaskTag } from './record-event.ts'
import { columnsOf } from './schema/columns.ts'
import { and, eq, type SQL, sql } from './schema/drizzle.ts'
import { taskTags } from './schema/tables.ts'
import { lockTasks, type TaskFacts, touchTasks } from './task-facts.ts'
import { isTaskVisible } from './task-pages.ts'

/** Links of tasks and tags, of which the writer of a task, or of a tag, holds the lock of the task. */

const task = sql.raw('task')
const tag = sql.raw('tag')
const pathParameters = { task_id: 'uuid', tag_id: 'uuid' } as const

/** A task and a tag in the path of a request, and what the caller is to them. */
export interface TaskTagFacts {
  /** Null if it does not exist or is in the trash. */
  readonly task: TaskFacts | null
  readonly isTagSeen: boolean
  readonly isTagged: boolean
}

const selectFacts = query(
  'task_tags.select_facts',
  pathParameters,
  { is_seen: 'bool', is_tagged: 'bool' },
  (p) => sql`
    select ${allowsTag('tag.see', p, tag)} as is_seen,
      exists (select from task_tags where task_id = ${p.task_id} and tag_id = tag.id) as is_tagged
    from tags tag where tag.id = ${p.tag_id} and ${columnsOf<'tags'>(tag).deleted_at} is null`,
)

/** Locks a task, and before it a tag against its deletion, and reads both under the locks. */
export const lockTaskAndTag = async (
  tx: TransactionContext<Principal>,
  { taskId, tagId }: TaskTag,
): Promise<TaskTagFacts> => {
  const [[task = null], [facts]] = await Promise.all([
    lockTasks(tx, [taskId], [tagId]).then((found) => [...found.values()]),
    selectFacts(tx, { task_id: taskId, tag_id: tagId }),
  ])
  return { task, isTagSeen: facts?.is_seen === true, isTagged: facts?.is_tagged === true }
}

const insert = builtStatement('task_tags.insert', pathParameters, (db, p) =>
  db.insert(taskTags).values({ task_id: p.task_id, tag_id: p.tag_id }),
)

/** Adds a tag to a task that does not have it. */
export const insertLink = async (
  { db }: TransactionContext,
  { id }: Authorized<'task_tag.change', TaskFacts>,
  tagId: string,
): Promise<void> => {
  await insert(db, { task_id: id, tag_id: tagId })
}

const remove = builtStatement('task_tags.delete', pathParameters, (db, p) =>
  db.delete(taskTags).where(and(eq(taskTags.task_id, p.task_id), eq(taskTags.tag_id, p.tag_id))),
)

/** Removes a tag from a task. */
export const removeLink = async (
  { db }: TransactionContext,
  { id }: Authorized<'task_tag.change', TaskFacts>,
  tagId: string,
): Promise<void> => {
  await remove(db, { task_id: id, tag_id: tagId })
}

const linkParameters = { task_ids: 'uuid[]', tag_ids: 'uuid[]' } as const

const idsOf = (links: readonly TaskTag[]) => ({
  task_ids: links.map(({ taskId }) => taskId),
  tag_ids: links.map(({ tagId }) => tagId),
})

const deleteLinks = builtStatement('task_tags.delete_links', linkParameters, (db, p) =>
  db
    .delete(taskTags)
    .where(
      sql`(${taskTags.task_id}, ${taskTags.tag_id}) in (select * from unnest(${p.task_ids}, ${p.tag_ids}))`,
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
    await Promise.all([
      removeLinks(tx, links),
      touchTasks(tx, idsOf(links).task_ids),
      recordUntagged(tx, links),
    ])
    return rows.length
  }
}

/** A page of a task's tags, if the caller can see the task. */
export const selectTaskTags = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const listed = await selectPage(
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
  return pageIfVisible(listed, () => isTaskVisible(ctx, taskId))
}
