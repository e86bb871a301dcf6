import { replacingOtherKind, type TaskDates } from '../domain/dates.ts'
import type { TaskExpansion } from '../domain/expansions.ts'
import { canonicalName } from '../domain/text.ts'
import { done, found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { positionAtEnd, positionOfNew } from '../domain/positions.ts'
import { allowsTask } from './access/permissions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { creation, readCreation } from './engine/creation.ts'
import type { Created } from './engine/idempotency.ts'
import { newId } from './engine/ids.ts'
import { readChangedRow, readOutcome } from './engine/outcome.ts'
import type { Placeholders, Row } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { tagsOfTask, expandedTaskJson, isBlocked, taskJson } from './read-models.ts'
import { assignments, columnsOf } from './schema/columns.ts'
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
  lockReferences,
  lockTasksOfTrees,
  lockTrees,
  parentsOfCreations,
  readItemOutcome,
  referencesOfCreations,
  referencesOfPatches,
  replaceTags,
  tagsInPatch,
  treesOfPatches,
  updateTasks,
} from './task-writes.ts'

/** A task as JSON text, and the version that this text shows. */
export interface TaskRow {
  readonly json: string
  readonly version: number
  readonly is_blocked: boolean
}

/** The fields of a new task; instants are RFC 3339. */
export interface NewTask extends TaskDates {
  readonly title: string
  readonly description: string
  readonly status: string
  readonly priority: string
  readonly owner_id?: string
  readonly assignee_id?: string | null
  readonly project_id?: string | null
  readonly section_id?: string | null
  readonly parent_id?: string | null
  readonly tag_ids?: readonly string[]
  /** Names of tags of the task's project, or of the caller for a personal task. Missing tags are created. */
  readonly tag_names?: readonly string[]
}

/** A merge patch: absent fields are not changed. */
export type TaskPatch = Partial<Omit<NewTask, 'tag_names'>>

const taskColumns = { json: 'text', version: 'int', is_blocked: 'bool' } as const

const task = sql.raw('task')
const { id, version } = columnsOf<'tasks'>(task)

const selectOne = query(
  'tasks.select',
  { id: 'uuid' },
  taskColumns,
  (p) => sql`
    select ${taskJson(task, p)} as json, ${version}, ${isBlocked(task, p)} as is_blocked
    from tasks task where ${id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

const selectExpanded = query(
  'tasks.select_expanded',
  { id: 'uuid', expand: 'text[]' },
  taskColumns,
  (p) => sql`
    select ${expandedTaskJson(task, p.expand, p)} as json, ${version}, ${isBlocked(task, p)} as is_blocked
    from tasks task where ${id} = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

/** One task with the expansions in `expand`, if the caller can see it. */
export const selectTask = async (
  ctx: OpContext,
  taskId: string,
  expand: readonly TaskExpansion[] = [],
): Promise<Outcome<TaskRow>> => {
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
      new_task as (
        select ${p.id} as id, ${p.item} as item, ${p.owner_id} as owner_id, ${p.tag_ids} as tag_ids,
          ${p.item} -> 'tag_names' as tag_names
      ), ${lockTrees(p, { parents: parentsOfCreations(sql`new_task`) })}, creations as (
        ${creationsOf(sql`select * from new_task`)}
      ), ${lockReferences(p, referencesOfCreations)}, creation as (
        ${checkedCreations(p)}
      ), task as (
        ${insertTasks(sql`creation where outcome = 'done'`)} returning *
      ), ${createNamedTags(p, sql`(select * from creation where outcome = 'done') creation`)}, tagged as (
        ${insertTagsOfTasks(sql`creation where outcome = 'done'`)}
      ), created as (
        select ${id}, ${taskJson(task, p, sql`(select * from visible_tags union select * from named_tags) tag`)} as json
        from task
      )`,
    select: sql`select outcome, unknown_tag, created.json from creation left join created on true`,
  }),
)

/** A tag to create, unless the caller, or the project of the task, has one with this name. */
export const newNamedTag = (name: string) => ({ id: newId(), name, canonical_name: canonicalName(name) })

/**
 * Creates a task with its tags, all or nothing. The owner is the caller by default. `checkQuota` is not called for a replay.
 */
export const insertTask = async (
  ctx: OpContext<Principal>,
  newTask: NewTask,
  checkQuota: () => Promise<void>,
): Promise<Outcome<Created>> => {
  const { owner_id = ctx.principal.userId, tag_ids = [], tag_names = [], ...item } = newTask
  const result = await insert(ctx, async (newTaskId) => {
    await checkQuota()
    const position = positionOfNew(newTaskId)
    return { item: { ...item, position, tag_names: tag_names.map(newNamedTag) }, owner_id, tag_ids }
  })
  return readCreation(result, (row) => readItemOutcome(row, tag_ids))
}

interface Change {
  /** Common table expressions: `targets`, the task if the caller can see it, and `change` with `id`, `outcome` and `unknown_tag`. */
  readonly parts: SQL
  /** An UPDATE of `tasks task`. */
  readonly update: SQL
  /** The tags of `changed`, joined as `tag`, if the change replaces them. */
  readonly tags?: SQL
}

export const changedColumns = {
  outcome: 'text',
  unknown_tag: 'text?',
  json: 'text?',
  version: 'int?',
  is_blocked: 'bool',
  is_current: 'bool',
} as const

type ChangedRow = Row<typeof changedColumns>

/** A statement that changes and returns one task. `is_current` is false if it had to wait for another statement. */
export const changeStatement = (
  p: Placeholders<{ id: 'uuid' }> & ContextPlaceholders,
  { parts, update, tags }: Change,
): SQL => sql`
  with before as (
    select version from tasks where id = ${p.id}
  ), ${parts}, changed as (
    ${update} returning task.*
  )
  select outcome, unknown_tag, ${taskJson(sql`changed`, p, tags)} as json, changed.version,
    coalesce(${isBlocked(sql`changed`, p)}, false) as is_blocked,
    coalesce((select version from targets) = before.version, true) as is_current
  from change left join changed on true left join before on true`

const change = query('tasks.update', { id: 'uuid', patch: 'json' }, changedColumns, (p) => {
  const row = sql`target`
  return changeStatement(p, {
    parts: sql`
      changes as (
        select ${p.id} as task_id, ${p.patch} as patch, ${tagsInPatch(p.patch)} as tag_ids
      ), ${lockTrees(p, treesOfPatches(sql`changes`))}, ${lockReferences(p, {
        ...referencesOfPatches(sql`changes`),
        tags: sql`select unnest(tag_ids) from changes`,
      })}, targets as (
        ${lockTasksOfTrees(p, p.id)}
      ), ${checkSubtaskCount(sql`select id from targets where subtask_count > 0`)}, change as (
        select target.id, patch, tag_ids, tag_ids is not null and tag_ids <> tags_of_task(target.id) as replaces_tags, unknown_tag,
          ${changeOutcome(p, row, { patch: sql`patch`, ifMatch: p.if_match })} as outcome
        from targets target cross join changes ${joinUnknownTag(sql`tag_ids`)}
      ), replaced as materialized (
        ${replaceTags(sql`select id as task_id, tag_ids from change where outcome = 'done' and replaces_tags`)}
      )`,
    update: updateTasks({
      from: sql`change cross join replaced`,
      condition: sql`outcome = 'done'`,
      completedBefore: columnsOf<'tasks'>(task).completed_at,
      columns: { version: sql`task.version + change.replaces_tags::int` },
    }),
    tags: sql`(
      select * from visible_tags where change.tag_ids is not null
      union all select tag.* from ${tagsOfTask(sql`changed`)} and change.tag_ids is null) tag`,
  })
})

/** Adds the position to a patch that can move a task to another project: the end of its list. */
export const withPosition = <P extends TaskPatch>(patch: P) =>
  patch.project_id === undefined ? patch : { ...patch, position: positionAtEnd(null) }

/** Changes a task by a merge patch. */
export const updateTask = async (
  ctx: OpContext,
  taskId: string,
  patch: TaskPatch,
): Promise<Outcome<TaskRow>> => {
  const [row] = await change(ctx, { id: taskId, patch: withPosition(replacingOtherKind(patch)) })
  return readChanged(ctx, taskId, row, patch.tag_ids)
}

const reread = query(
  'tasks.reread',
  { id: 'uuid' },
  taskColumns,
  (p) => sql`
    select ${taskJson(task, p)} as json, ${version}, ${isBlocked(task, p)} as is_blocked from tasks task where ${id} = ${p.id}`,
)

/**
 * The task that a statement has changed. A statement that waited for another one changes the newest version of the row, but sees
 * other tables as they were at its start, so its text may have outdated tags. In this case the task is read again.
 */
export const readChanged = async (
  ctx: OpContext,
  taskId: string,
  row: ChangedRow | undefined,
  tagIds: readonly string[] = [],
): Promise<Outcome<TaskRow>> => {
  const changed = readChangedRow(readItemOutcome(row, tagIds))
  if (changed.outcome !== 'done' || changed.value.is_current) return changed
  const [newest] = await reread(ctx, { id: taskId })
  return newest === undefined ? changed : done(newest)
}

const trash = query(
  'tasks.trash',
  { id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with ${lockTrees(p, { tasks: sql`select ${p.id}`, roots: sql`select ${p.id}` })}, target as (
      ${lockTasksOfTrees(p, p.id)}
    ), ${checkSubtaskCount(sql`select id from target where subtask_count > 0`)}, deletion as (
      select id, ${deletionOutcome(p, sql`target`, p.if_match)} as outcome from target
    ), trashed as (
      update tasks task set ${assignments<'tasks'>({ deleted_at: sql`now()` })} from deletion
      where task.id = deletion.id and outcome = 'done'
    )
    select outcome from deletion`,
)

/** Moves a task with its subtasks to the trash. */
export const deleteTask = async (ctx: OpContext, taskId: string): Promise<Outcome<unknown>> => {
  const [row] = await trash(ctx, { id: taskId })
  return readOutcome(row)
}
