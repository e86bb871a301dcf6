import type { TaskExpansion } from '../domain/expansions.ts'
import { done, found, missing, type Outcome } from '../domain/outcome.ts'
import type { Permission, Principal } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import {
  type Created,
  createOnce,
  type Idempotency,
  idempotencyParameters,
  idempotencyValues,
  keepAnswer,
} from './engine/idempotency.ts'
import { newId } from './engine/ids.ts'
import { expandedTaskJson, taskJson } from './read-models.ts'
import { checkedOutcome, ifMatchParameter, readOutcome } from './engine/outcome.ts'
import {
  allowsTag,
  allowsTask,
  callerOf,
  callerParameters,
  type CallerPlaceholders,
  ownerReadByAdmin,
} from './access/permissions.ts'
import { prepareRemoval } from './removal.ts'
import { onlyRow, type Placeholders, type Row, statement } from './engine/statement.ts'

/** A task as it is answered with: its JSON text and the version that this text shows. */
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

/** The fields of a task that change; those that are left out stay. */
export type TaskChange = Partial<Omit<NewTask, 'tag_ids'>>

/** A task that was read. */
export interface ReadTask extends TaskRow {
  /** Its owner, if the caller sees it only as an administrator. */
  readonly owner_read_by_admin: string | null
}

const taskColumns = { json: 'text', version: 'int' } as const
const readColumns = { ...taskColumns, owner_read_by_admin: 'text?' } as const

const task = sql.raw('task')

/** A task's entity tag, without its quotes. */
export const etagOf = (row: SQL): SQL => sql`${row}.version::text`

const selectVisible = statement(
  { id: 'uuid', ...callerParameters },
  readColumns,
  (p) => sql`
    select ${taskJson(task)} as json, version, ${ownerReadByAdmin('task.see', p, task)} as owner_read_by_admin
    from tasks task
    where id = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

const selectExpanded = statement(
  { id: 'uuid', expand: 'text[]', ...callerParameters },
  readColumns,
  (p) => sql`
    select ${expandedTaskJson(task, p.expand, p)} as json, version,
      ${ownerReadByAdmin('task.see', p, task)} as owner_read_by_admin
    from tasks task
    where id = ${p.id} and ${allowsTask('task.see', p, task)}`,
)

/** One task with what `expand` asks for, if the principal sees it. */
export const selectTask = async (
  db: Database,
  principal: Principal,
  id: string,
  expand: readonly TaskExpansion[],
): Promise<Outcome<ReadTask>> => {
  const values = { id, ...callerOf(principal) }
  const rows =
    expand.length === 0 ? await selectVisible(db, values) : await selectExpanded(db, { ...values, expand })
  return found(onlyRow(rows))
}

const selectUnchecked = statement(
  { id: 'uuid' },
  taskColumns,
  (p) => sql`select ${taskJson(task)} as json, version from tasks task where id = ${p.id}`,
)

/** The columns that a new task has values for; `newTaskValues` are these values. */
export const newTaskColumns = sql.raw(
  'id, title, description, status, priority, start_at, due_at, completed_at, owner_id, assignee_id',
)

export const newTaskValues = (id: SQL, fields: SQL, owner: SQL): SQL => sql`
  ${id}, ${fields} ->> 'title', ${fields} ->> 'description', ${fields} ->> 'status', ${fields} ->> 'priority',
  (${fields} ->> 'start_at')::timestamptz, (${fields} ->> 'due_at')::timestamptz,
  case when ${fields} ->> 'status' = 'done' then now() end, ${owner}, (${fields} ->> 'assignee_id')::uuid`

const insert = statement(
  {
    id: 'uuid',
    fields: 'json',
    owner_id: 'uuid',
    tag_ids: 'uuid[]',
    ...callerParameters,
    ...idempotencyParameters,
  },
  { outcome: 'text', unknown_tag: 'text?', json: 'text?' },
  (p) => sql`
    with named as (
      select distinct id from unnest(${p.tag_ids}) as id
    ), seen as (
      select tag.* from tags tag join named using (id) where ${allowsTag('tag.see', p, sql`tag`)}
      for key share of tag
    ), checked as (
      select
        case
          when ${p.owner_id} <> ${p.caller} and not ${allowsTask('task.create_for_another', p, sql`task`)} then 'forbidden'
          when (select count(*) from named) > (select count(*) from seen) then 'unknown_tag'
          else 'done'
        end as outcome,
        (select named.id::text from named where id not in (select id from seen) limit 1) as unknown_tag
    ), task as (
      insert into tasks (${newTaskColumns}) select ${newTaskValues(p.id, sql`f`, p.owner_id)}
      from checked, (select ${p.fields} as f) fields where checked.outcome = 'done'
      returning *
    ), linked as (
      insert into task_tags (task_id, tag_id) select task.id, seen.id from task, seen
    ), created as (
      select task.id, ${taskJson(task, sql`seen tag`)} as json from task
    ), kept as (
      ${keepAnswer(p, sql`created`)}
    )
    select outcome, unknown_tag, created.json from checked left join created on true`,
)

/** How a creation ended. */
export type Creation =
  | { readonly outcome: 'done'; readonly value: Created }
  | { readonly outcome: 'forbidden' }
  | { readonly outcome: 'unknown_tag'; readonly tagId: string }

/**
 * Creates a task with its tags; all or nothing. Unknown users break the constraints that are named for them. The tags
 * are locked, so that one that is being deleted is an unknown one and not a broken constraint.
 */
export const insertTask = (
  db: Database,
  principal: Principal,
  task: NewTask,
  idempotency: Idempotency | null,
  expectRoom: () => Promise<void> | null,
): Promise<Creation> => {
  const { owner_id = principal.userId, tag_ids = [], ...fields } = task
  const create = async (): Promise<Creation> => {
    await expectRoom()
    const id = newId()
    const rows = await insert(db, {
      id,
      fields,
      owner_id,
      tag_ids,
      ...callerOf(principal),
      ...idempotencyValues(idempotency),
    })
    return readCreation(id, onlyRow(rows))
  }
  return createOnce(db, idempotency, create, (value) => ({ outcome: 'done', value }))
}

const readCreation = (
  id: string,
  row: { outcome: string; unknown_tag: string | null; json: string | null } | null,
): Creation => {
  if (row?.outcome === 'forbidden') return { outcome: 'forbidden' }
  if (row?.unknown_tag != null) return { outcome: 'unknown_tag', tagId: row.unknown_tag }
  if (row?.json == null) throw new Error('A creation answers with a row')
  return { outcome: 'done', value: { id, json: row.json, replayed: false } }
}

/** What a patch sets a column of a task to: its value in there, or what the column holds. */
export const patched = (patch: SQL, column: string, type: string, row: SQL = task): SQL => {
  const name = sql.raw(`'${column}'`)
  return sql`case when ${patch} ? ${name} then (${patch} ->> ${name})::${sql.raw(type)} else ${row}.${sql.raw(column)} end`
}

/** What a patch sets the row `task` to. */
export const patchedColumns = (patch: SQL): SQL => sql`
  title = ${patched(patch, 'title', 'text')},
  description = ${patched(patch, 'description', 'text')},
  status = ${patched(patch, 'status', 'text')},
  priority = ${patched(patch, 'priority', 'text')},
  start_at = ${patched(patch, 'start_at', 'timestamptz')},
  due_at = ${patched(patch, 'due_at', 'timestamptz')},
  owner_id = ${patched(patch, 'owner_id', 'uuid')},
  assignee_id = ${patched(patch, 'assignee_id', 'uuid')},
  completed_at = case when ${patched(patch, 'status', 'text')} = 'done'
    then coalesce(task.completed_at, clock_timestamp()) end`

/** May the caller change the task in row `row` like this? */
export const allowsChange = (p: CallerPlaceholders, row: SQL, patch: SQL): SQL => sql`
  ${allowsTask('task.change', p, row)} and (
    coalesce((${patch} ->> 'owner_id')::uuid = ${row}.owner_id, true) or ${allowsTask('task.transfer', p, row)})`

/** The parameters of a statement that changes a task. */
export const changeParameters = { id: 'uuid', ...callerParameters, ...ifMatchParameter } as const

/** What a statement answers with that changed a task; `is_current` when it did not have to wait for another one. */
export const changedColumns = { outcome: 'text', json: 'text?', version: 'int?', is_current: 'bool' } as const

interface Change {
  readonly see: Permission
  /** May the caller change the task in row `target` like this? */
  readonly allowed: SQL
  /** What the row `task` is set to. */
  readonly columns: SQL
}

/** A statement that changes a task that the caller sees and may change; it answers with `changedColumns`. */
export const changeTask = (
  p: Placeholders<typeof changeParameters>,
  { see, allowed, columns }: Change,
): SQL => sql`
  with before as (
    select version from tasks where id = ${p.id}
  ), target as (
    select * from tasks task where id = ${p.id} and ${allowsTask(see, p, task)} for no key update
  ), checked as (
    select id, version, ${checkedOutcome(allowed, etagOf(sql`target`), p.if_match)} as outcome from target
  ), changed as (
    update tasks task set ${columns} from checked where task.id = checked.id and checked.outcome = 'done'
    returning task.*
  )
  select outcome, ${taskJson(sql`changed`)} as json, changed.version, checked.version = before.version as is_current
  from checked left join changed on true, before`

const update = statement({ patch: 'json', ...changeParameters }, changedColumns, (p) =>
  changeTask(p, {
    see: 'task.see',
    allowed: allowsChange(p, sql`target`, p.patch),
    columns: patchedColumns(p.patch),
  }),
)

/**
 * The task that a statement changed. One that had to wait for another changes the newest row but sees other tables as
 * they were when it began; its text may then show tags that are gone. So it is read again.
 */
export const readChanged = async (
  db: Database,
  id: string,
  row: Row<typeof changedColumns> | null,
): Promise<Outcome<TaskRow>> => {
  const result = readOutcome(row)
  if (result.outcome !== 'done') return result
  const { json, version, is_current } = result.value
  if (json === null || version === null) return missing
  const newest = is_current ? null : onlyRow(await selectUnchecked(db, { id }))
  return done(newest ?? { json, version })
}

/** Changes a task. `ifMatch` holds the ETags that will do, null for any. */
export const updateTask = async (
  db: Database,
  principal: Principal,
  id: string,
  change: TaskChange,
  ifMatch: readonly string[] | null,
): Promise<Outcome<TaskRow>> => {
  const values = { id, patch: change, ...callerOf(principal), if_match: ifMatch }
  return readChanged(db, id, onlyRow(await update(db, values)))
}

/** Moves a task to the trash with what belongs to it. */
export const deleteTask = prepareRemoval({
  table: 'tasks',
  to: 'trash',
  see: 'task.see',
  remove: 'task.delete',
  allows: allowsTask,
  etag: etagOf,
})
