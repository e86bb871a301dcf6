import type { TaskExpansion } from '../domain/expansions.ts'
import { done, found, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { allowsTask, ownerReadByAdmin } from './access/permissions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { type Created, creation } from './engine/creation.ts'
import { readOutcome } from './engine/outcome.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query, statement } from './engine/statement.ts'
import { expandedTaskJson, taskJson } from './read-models.ts'
import { columnsOf } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import {
  checkedChanges,
  checkedCreations,
  checkedDeletions,
  insertTagsOfTasks,
  insertTasks,
  lockPeople,
  lockTags,
  lockTasks,
  peopleOfChanges,
  peopleOfCreations,
  readItemOutcome,
  trashTasks,
  updateTasks,
} from './task-writes.ts'

/** A task as JSON text, and the version that this text shows. */
export interface TaskRow {
  readonly json: string
  readonly version: number
}

/** The fields of a new task; instants are RFC 3339. */
export interface NewTask {
  readonly title: string
  readonly description: string
  readonly status: string
  readonly priority: string
  readonly start_at?: string | null
  readonly due_at?: string | null
  readonly owner_id?: string
  readonly assignee_id?: string | null
  readonly tag_ids?: readonly string[]
}

/** A merge patch: fields that are left out stay as they are. */
export type TaskPatch = Partial<Omit<NewTask, 'tag_ids'>>

/** A task that was read. */
export interface ReadTask extends TaskRow {
  /** Its owner, if the caller sees it only as an administrator. */
  readonly owner_read_by_admin: string | null
}

const taskColumns = { json: 'text', version: 'int' } as const
const readColumns = { ...taskColumns, owner_read_by_admin: 'text?' } as const

const task = sql.raw('task')
const { id, version } = columnsOf<'tasks'>(task)

const selectOne = query(
  'tasks.select',
  { id: 'uuid' },
  readColumns,
  (p) => sql`
    select ${taskJson(task)} as json, ${version}, ${ownerReadByAdmin('task.see', p, task)} as owner_read_by_admin
    from tasks task where ${id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

const selectExpanded = query(
  'tasks.select_expanded',
  { id: 'uuid', expand: 'text[]' },
  readColumns,
  (p) => sql`
    select ${expandedTaskJson(task, p.expand, p)} as json, ${version},
      ${ownerReadByAdmin('task.see', p, task)} as owner_read_by_admin
    from tasks task where ${id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

/** One task with what `expand` asks for, if the caller can see it. */
export const selectTask = async (
  ctx: OpContext,
  taskId: string,
  expand: readonly TaskExpansion[] = [],
): Promise<Outcome<ReadTask>> => {
  const [row] =
    expand.length === 0
      ? await selectOne(ctx, { id: taskId })
      : await selectExpanded(ctx, { id: taskId, expand })
  return found(row)
}

const insert = creation(
  'tasks.insert',
  { item: 'json', owner_id: 'uuid', tag_ids: 'uuid[]' },
  { outcome: 'text', unknown_tag: 'text?', json: 'text?' },
  (p) => ({
    parts: sql`
      creations as (
        select ${p.id} as id, ${p.item} as item, ${p.owner_id} as owner_id, ${p.tag_ids} as tag_ids
      ), people as (
        ${lockPeople(peopleOfCreations)}
      ), visible_tags as (
        ${lockTags(p, sql`select unnest(tag_ids) from creations`)}
      ), creation as (
        ${checkedCreations(p)}
      ), task as (
        ${insertTasks(sql`creation where outcome = 'done'`)} returning *
      ), tagged as (
        ${insertTagsOfTasks(sql`creation`)} where outcome = 'done'
      ), created as (
        select ${id}, ${taskJson(task, sql`visible_tags tag`)} as json from task
      )`,
    select: sql`select outcome, unknown_tag, created.json from creation left join created on true`,
  }),
)

/**
 * Creates a task with its tags; all or nothing. The caller owns it unless it says otherwise. `prepare` is called only when
 * this is not a repeat.
 */
export const insertTask = async (
  ctx: OpContext<Principal>,
  newTask: NewTask,
  prepare: () => Promise<void>,
): Promise<Outcome<Created>> => {
  const { owner_id = ctx.principal.userId, tag_ids = [], ...item } = newTask
  const result = await insert(ctx, async () => {
    await prepare()
    return { item, owner_id, tag_ids }
  })
  if (result.replayed) return done(result)
  const outcome = readItemOutcome(result.row, tag_ids)
  if (outcome.outcome !== 'done') return outcome
  const { json } = outcome.value
  return json === null ? missing : done({ id: result.id, json, replayed: false })
}

interface Change {
  /** Common table expressions: `targets`, the task if the caller can see it, and `change` with `id` and `outcome`. */
  readonly parts: SQL
  /** An UPDATE of `tasks task`. */
  readonly update: SQL
}

export const changedColumns = { outcome: 'text', json: 'text?', version: 'int?', is_current: 'bool' } as const

interface ChangedRow {
  readonly outcome: string
  readonly json: string | null
  readonly version: number | null
  readonly is_current: boolean
}

/** A statement that changes one task and answers with it; `is_current` when it did not have to wait for another one. */
export const changeStatement = (
  p: Placeholders<{ id: 'uuid' }> & ContextPlaceholders,
  { parts, update }: Change,
): SQL => sql`
  with before as (
    select version from tasks where id = ${p.id}
  ), ${parts}, changed as (
    ${update} returning task.*
  )
  select outcome, ${taskJson(sql`changed`)} as json, changed.version,
    coalesce((select version from targets) = before.version, true) as is_current
  from change left join changed on true left join before on true`

const change = query('tasks.update', { id: 'uuid', patch: 'json' }, changedColumns, (p) =>
  changeStatement(p, {
    parts: sql`
      changes as (
        select 0 as index, ${p.id} as task_id, ${p.patch} as patch, ${p.if_match} as if_match
      ), people as (
        ${lockPeople(peopleOfChanges)}
      ), targets as (
        ${lockTasks(p, sql`select task_id from changes`)}
      ), change as (
        ${checkedChanges(p)}
      )`,
    update: updateTasks(sql`change`, sql`outcome = 'done'`),
  }),
)

/** Changes a task by a merge patch. */
export const updateTask = async (
  ctx: OpContext,
  taskId: string,
  patch: TaskPatch,
): Promise<Outcome<TaskRow>> => {
  const [row] = await change(ctx, { id: taskId, patch })
  return readChanged(ctx, taskId, row)
}

const reread = statement(
  'tasks.reread',
  { id: 'uuid' },
  taskColumns,
  (p) => sql`select ${taskJson(task)} as json, ${version} from tasks task where ${id} = ${p.id}`,
)

/**
 * The task that a statement changed. A statement that waited for another one changes the newest row but sees other tables as
 * they were when it began, so its text may show tags that are gone: the task is read again.
 */
export const readChanged = async (
  { db }: OpContext,
  taskId: string,
  row: ChangedRow | undefined,
): Promise<Outcome<TaskRow>> => {
  const result = readItemOutcome(row)
  if (result.outcome !== 'done') return result
  const { json, version: current, is_current } = result.value
  if (json === null || current === null) return missing
  const [newest] = is_current ? [] : await reread(db, { id: taskId })
  return done(newest ?? { json, version: current })
}

const trash = query(
  'tasks.trash',
  { id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with deletions as (
      select 0 as index, ${p.id} as task_id, ${p.if_match} as if_match
    ), targets as (
      ${lockTasks(p, sql`select task_id from deletions`)}
    ), deletion as (
      ${checkedDeletions(p)}
    ), trashed as (
      ${trashTasks(sql`deletion`, sql`outcome = 'done'`)}
    )
    select outcome from deletion`,
)

/** Moves a task to the trash with what belongs to it. */
export const deleteTask = async (ctx: OpContext, taskId: string): Promise<Outcome<unknown>> => {
  const [row] = await trash(ctx, { id: taskId })
  return readOutcome(row)
}
