import type { Metadata } from '../../domain/shared/integration-fields.ts'
import { type Completion, type TaskFields, taskFields } from '../../domain/tasks/fields.ts'
import type { Authorized, Principal } from '../../domain/shared/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { anyOf } from '../statements/parameters.ts'
import type { TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { statement } from '../statements/statement.ts'
import { eq, getTableColumns, type SQL, sql } from '../schema/drizzle.ts'
import { tasks } from '../schema/tables.ts'

/** Writes of many tasks at once. A single task is an array of one. */

const columns = getTableColumns(tasks)

/**
 * The rows of a JSON parameter with an array, with the fields of tasks and other columns. The limit, their number, makes the planner
 * expect a tenth of the 100 that it expects of the function; with 100, it would read all tasks of a small table to update one. In a
 * subselect, because a number that it knows is cheaper with a plan of its own: it would plan the statement at each execution.
 */
export const taskRowsOf = (json: SQL, others: string): SQL =>
  sql`(
    select * from jsonb_to_recordset(${json} -> 'rows') as row (${sql.raw(
      [...taskFields.map((name) => `${name} ${columns[name].getSQLType()}`), others].join(', '),
    )}) limit (select jsonb_array_length(${json} -> 'rows'))
  ) row`

export const taskColumnNames = sql.raw(taskFields.join(', '))
export const taskColumnsOfRow = sql.raw(taskFields.map((name) => `row.${name}`).join(', '))

/** A task to insert. */
export interface InsertedTask extends TaskFields {
  readonly id: string
  readonly version: number
  readonly is_trashed: boolean
  readonly subtasks: number
  readonly open_subtasks: number
}

const insert = statement(
  'tasks.insert',
  { tasks: 'json' },
  {},
  (p) => sql`
    insert into tasks (id, version, ${taskColumnNames}, subtask_count, open_subtask_count, completed_at, deleted_at)
    select row.id, row.version, ${taskColumnsOfRow}, row.subtasks, row.open_subtasks, case when row.status = 'done' then now() end,
      case when row.is_trashed then now() end
    from ${taskRowsOf(p.tasks, 'id uuid, version int, is_trashed boolean, subtasks int, open_subtasks int')}`,
)

export const insertTasks = async (
  { db }: TransactionContext,
  rows: readonly InsertedTask[],
): Promise<void> => {
  await insert(db, { tasks: { rows } })
}

/** Fields that can be long. */
const longFields: ReadonlySet<keyof TaskFields> = new Set(['description', 'metadata'] as const)

/** A task to update. Without a long field, it keeps the present one. */
export interface UpdatedTask extends Omit<TaskFields, 'description' | 'metadata'> {
  readonly id: string
  readonly description?: string
  readonly metadata?: Metadata
  readonly completion: Completion
  readonly is_trashed: boolean
  /** How many versions the changes make, and how many revisions beside them. */
  readonly versions: number
  readonly side_changes: number
  /** By how many its subtasks become more, and the open ones of them. */
  readonly subtasks: number
  readonly open_subtasks: number
}

const update = statement('tasks.update', { tasks: 'json' }, {}, (p) => {
  const assignments = taskFields.map((name) =>
    longFields.has(name) ? `${name} = coalesce(row.${name}, task.${name})` : `${name} = row.${name}`,
  )
  return sql`
    update tasks task set ${sql.raw(assignments.join(', '))},
      completed_at = case row.completion
        when 'before' then task.completed_at
        when 'now' then greatest(clock_timestamp(), task.created_at) end,
      deleted_at = case when row.is_trashed then coalesce(task.deleted_at, now()) end,
      subtask_count = task.subtask_count + row.subtasks,
      open_subtask_count = task.open_subtask_count + row.open_subtasks,
      version = task.version + row.versions,
      side_changes = task.side_changes + row.side_changes,
      updated_at = greatest(clock_timestamp(), task.created_at)
    from ${taskRowsOf(p.tasks, 'id uuid, completion text, is_trashed boolean, versions int, side_changes int, subtasks int, open_subtasks int')}
    where task.id = row.id`
})

/** Updates locked tasks, each in all of its fields. */
export const updateTasks = async (
  { db }: TransactionContext,
  rows: readonly UpdatedTask[],
): Promise<void> => {
  await update(db, { tasks: { rows } })
}

const redeliver = builtStatement('tasks.redeliver_blocked', { ids: 'uuid[]' }, (db, p) =>
  db
    .update(tasks)
    .set({ changed_in: sql`pg_current_xact_id()` })
    .where(
      sql`${tasks.id} in (select other_task_id from task_relations where task_id = ${anyOf(p.ids)} and kind = 'blocks')`,
    ),
)

/**
 * Makes the change feed deliver the tasks again that locked tasks block. Whether a task is blocked depends on the viewer, so it does not
 * affect the version.
 */
export const redeliverBlocked = async (
  { db }: TransactionContext,
  blockers: readonly string[],
): Promise<void> => {
  await redeliver(db, { ids: blockers })
}

/** A task in the trash that the caller may delete permanently, or one that was moved to the trash with it. */
export type DeletableTask = Authorized<'trash.delete', { readonly id: string }>

const remove = builtStatement('tasks.delete', { ids: 'uuid[]' }, (db, p) =>
  db.delete(tasks).where(eq(tasks.id, anyOf(p.ids))),
)

/** Deletes locked tasks in the trash, with what belongs to them. */
export const deleteTasks = async (
  { db }: TransactionContext,
  deletable: readonly DeletableTask[],
): Promise<void> => {
  await remove(db, { ids: deletable.map(({ id }) => id) })
}

/** Deletes locked tasks that were created as the next occurrence of another one, and that nobody has touched since. */
export const deleteWithdrawn = async ({ db }: TransactionContext, ids: readonly string[]): Promise<void> => {
  await remove(db, { ids })
}

/** A name that a new task gets a tag for. */
export interface NamedTag {
  readonly task_id: string
  /** The id of the tag, unless there is one with this name. */
  readonly id: string
  readonly name: string
  readonly canonical_name: string
  /** Null for a personal tag of the caller. */
  readonly project_id: string | null
}

const namedTags = (json: SQL): SQL => sql`
  jsonb_to_recordset(${json} -> 'rows') as named (task_id uuid, id uuid, name text, canonical_name text, project_id uuid)`

const insertNamed = (list: 'owner_id' | 'project_id', condition: SQL) =>
  statement(
    `tags.insert_named_by_${list}`,
    { tags: 'json', owner_id: 'uuid' },
    {},
    (p) => sql`
      insert into tags (id, name, canonical_name, owner_id, project_id)
      select distinct on (project_id, canonical_name) id, name, canonical_name, ${p.owner_id}, project_id
      from ${namedTags(p.tags)} where ${condition} order by project_id, canonical_name
      on conflict (${sql.raw(list)}, canonical_name) where deleted_at is null and ${condition}
        do update set canonical_name = excluded.canonical_name`,
  )

const insertPersonal = insertNamed('owner_id', sql`project_id is null`)
const insertOfProjects = insertNamed('project_id', sql`project_id is not null`)

const linkNamed = statement(
  'task_tags.insert_named',
  { tags: 'json', owner_id: 'uuid' },
  {},
  (p) => sql`
    insert into task_tags (task_id, tag_id)
    select distinct named.task_id, tag.id from ${namedTags(p.tags)} join tags tag
      on tag.canonical_name = named.canonical_name and tag.deleted_at is null and tag.project_id is not distinct from named.project_id
      and (named.project_id is not null or tag.owner_id = ${p.owner_id})
    order by named.task_id, tag.id on conflict do nothing`,
)

/** Gives new tasks tags by name: tags of their project, or of the caller. Missing ones are created. */
export const addNamedTags = async (
  { db, principal }: TransactionContext<Principal>,
  rows: readonly NamedTag[],
): Promise<void> => {
  const values = { tags: { rows }, owner_id: principal.userId }
  const hasTags = (isShared: boolean) => rows.some(({ project_id }) => (project_id !== null) === isShared)
  await pipeline(db, {
    personal: () => hasTags(false) && insertPersonal(db, values),
    shared: () => hasTags(true) && insertOfProjects(db, values),
    links: () => linkNamed(db, values),
  })
}
