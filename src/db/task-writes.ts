import { done, missing, type Outcome } from '../domain/outcome.ts'
import { allowsTag, allowsTask, allowsTaskTag } from './access/permissions.ts'
import type { ContextPlaceholders } from './engine/context.ts'
import { outcomeOfChecks, readOutcome } from './engine/outcome.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/**
 * Parts of the statements that write tasks. Each part handles a set of items: one for a single operation, up to 500 for a
 * batch. Single and batch operations thus share every rule. The items of each kind are rows of a relation:
 *
 * - `creations`: `id`, `item` (the fields as JSON), `owner_id`, `tag_ids`
 * - `changes`: `task_id`, `patch` (the fields as JSON), `if_match`
 * - `deletions`: `task_id`, `if_match`
 * - `links`: `task_id`, `tag_id`
 * - `unlinks`: `task_id`, `tag_id`, `if_match`
 */

/** The column with an item's position in its request. */
const index = sql.raw('index')

const task = sql.raw('task')
const target = sql.raw('target')

/** A task's ETag, without quotes. */
export const taskEtag = (row: SQL): SQL => sql`${columnsOf<'tasks'>(row).version}::text`

/** The fields of a JSON object as SQL values; a missing field is null. */
const fieldsOf = (json: SQL) => ({
  title: sql`${json} ->> 'title'`,
  description: sql`${json} ->> 'description'`,
  status: sql`${json} ->> 'status'`,
  priority: sql`${json} ->> 'priority'`,
  start_at: sql`(${json} ->> 'start_at')::timestamptz`,
  due_at: sql`(${json} ->> 'due_at')::timestamptz`,
  owner_id: sql`(${json} ->> 'owner_id')::uuid`,
  assignee_id: sql`(${json} ->> 'assignee_id')::uuid`,
})

type Field = keyof ReturnType<typeof fieldsOf>

/** A field's value after a merge patch: the value in the patch, or the current one if the patch does not have the field. */
const patched = (patch: SQL, row: SQL) => {
  const values = fieldsOf(patch)
  const present = columnsOf<'tasks'>(row)
  return (field: Field): SQL =>
    sql`case when ${patch} ? ${sql.raw(`'${field}'`)} then ${values[field]} else ${present[field]} end`
}

/** The completion time: null unless the task is done; otherwise `before`, or now if `before` is null. */
const completedAt = (status: SQL, before: SQL): SQL =>
  sql`case when ${status} = 'done' then coalesce(${before}, clock_timestamp()) end`

/** Also a check constraint on the table, for rows that are not written by the service. */
const isDueBeforeStart = (field: (name: 'due_at' | 'start_at') => SQL): SQL =>
  sql`${field('due_at')} < ${field('start_at')}`

/** The users with these ids, locked against deletion. */
export const lockPeople = (ids: SQL): SQL =>
  sql`select id from users where id in (${ids}) and deleted_at is null order by id for key share`

/** The tags with these ids that the caller can see, locked against deletion. */
export const lockTags = (p: ContextPlaceholders, ids: SQL): SQL =>
  sql`select * from tags tag where id in (${ids}) and ${allowsTag('tag.see', p, sql`tag`)} order by id for key share`

/** The tasks with these ids that the caller can see, locked in id order. */
export const lockTasks = (p: ContextPlaceholders, ids: SQL): SQL =>
  sql`select * from tasks task where id in (${ids}) and ${allowsTask('task.see', p, task)} order by id for no key update`

/** Whether an item references a user who is not in `people`. */
const isUnknown = (user: SQL): SQL => sql`${user} is not null and ${user} not in (select id from people)`

const unknownPeople = (owner: SQL, assignee: SQL): SQL => sql`
  when ${isUnknown(owner)} then 'unknown_owner'
  when ${isUnknown(assignee)} then 'unknown_assignee'`

/** The ids of users referenced by creations, for `lockPeople`. */
export const peopleOfCreations = sql`
  select owner_id from creations union select ${fieldsOf(sql`item`).assignee_id} from creations`

/** The ids of users referenced by changes, for `lockPeople`. */
export const peopleOfChanges = sql`
  select ${fieldsOf(sql`patch`).owner_id} from changes union select ${fieldsOf(sql`patch`).assignee_id} from changes`

/** The creations with their outcomes. Reads `people` and `visible_tags`. */
export const checkedCreations = (p: ContextPlaceholders): SQL => {
  const fields = fieldsOf(sql`item`)
  return sql`
    select creations.*, unknown_tag, case
      when ${isDueBeforeStart((name) => fields[name])} then 'due_before_start'
      when owner_id <> ${p.caller} and not ${allowsTask('task.create_for_another', p, sql`creations`)} then 'forbidden'
      when unknown_tag is not null then 'unknown_tag'
      ${unknownPeople(sql`owner_id`, fields.assignee_id)}
      else 'done' end as outcome
    from creations left join lateral (
      select tag_id::text as unknown_tag from unnest(tag_ids) labels (tag_id)
      where tag_id not in (select id from visible_tags) limit 1
    ) unknown on true`
}

/** Inserts the tasks of creations; `from` may include a WHERE clause. */
export const insertTasks = (from: SQL): SQL => {
  const { owner_id: _, ...fields } = fieldsOf(sql`item`)
  const { columns, values } = insertion<'tasks'>({
    id: sql`id`,
    ...fields,
    completed_at: completedAt(fields.status, sql`now()`),
    owner_id: sql`owner_id`,
  })
  return sql`insert into tasks (${columns}) select ${values} from ${from}`
}

/** Inserts the tags of new tasks. */
export const insertTagsOfTasks = (from: SQL): SQL => {
  const { columns } = insertion<'task_tags'>({ task_id: sql`id`, tag_id: sql`label` })
  return sql`insert into task_tags (${columns}) select distinct id, label from ${from}, unnest(tag_ids) label`
}

/** The changes with their outcomes. Reads `people` and `targets` (the tasks). */
export const checkedChanges = (p: ContextPlaceholders): SQL => {
  const patch = sql`patch`
  const { owner_id: owner, assignee_id: assignee } = fieldsOf(patch)
  const isTransfer = sql`coalesce(${owner} <> ${columnsOf<'tasks'>(target).owner_id}, false)`
  const outcome = outcomeOfChecks({
    allowed: sql`${allowsTask('task.change', p, target)} and (not ${isTransfer} or ${allowsTask('task.transfer', p, target)})`,
    etag: taskEtag(target),
    ifMatch: sql`if_match`,
    refusals: sql`
      when ${isDueBeforeStart(patched(patch, target))} then 'due_before_start'
      ${unknownPeople(owner, assignee)}`,
  })
  return sql`
    select ${index}, target.id, patch, ${unlessMissing(outcome)} as outcome
    from changes left join targets target on target.id = task_id`
}

/** Updates the tasks of the changes (alias `change`) that meet a condition. */
export const updateTasks = (from: SQL, condition: SQL): SQL => {
  const value = patched(sql`change.patch`, task)
  const columns = assignments<'tasks'>({
    title: value('title'),
    description: value('description'),
    status: value('status'),
    priority: value('priority'),
    start_at: value('start_at'),
    due_at: value('due_at'),
    owner_id: value('owner_id'),
    assignee_id: value('assignee_id'),
    completed_at: completedAt(value('status'), columnsOf<'tasks'>(task).completed_at),
  })
  return sql`update tasks task set ${columns} from ${from} where task.id = change.id and ${condition}`
}

/** The deletions with their outcomes. Reads `targets` (the tasks). */
export const checkedDeletions = (p: ContextPlaceholders): SQL => {
  const allowed = allowsTask('task.delete', p, target)
  const outcome = outcomeOfChecks({ allowed, etag: taskEtag(target), ifMatch: sql`if_match` })
  return sql`
    select ${index}, target.id, ${unlessMissing(outcome)} as outcome
    from deletions left join targets target on target.id = task_id`
}

/** Moves the tasks of the deletions (alias `deletion`) that meet a condition to the trash. */
export const trashTasks = (from: SQL, condition: SQL): SQL =>
  sql`update tasks task set ${assignments<'tasks'>({ deleted_at: sql`now()` })} from ${from} where task.id = deletion.id and ${condition}`

/** The links with their outcomes. Reads `targets` (the tasks) and `visible_tags`. */
export const checkedLinks = (p: ContextPlaceholders): SQL => sql`
  select ${index}, target.id, links.tag_id, case
    when target.id is null or links.tag_id not in (select id from visible_tags) then 'missing'
    when not ${allowsTaskTag('task_tag.change', p, target)} then 'forbidden' else 'done' end as outcome
  from links left join targets target on target.id = task_id`

/** Adds tags to tasks for the links that meet a condition. Existing links are left unchanged. */
export const insertLinks = (from: SQL, condition: SQL): SQL => sql`
  insert into task_tags (task_id, tag_id) select id, tag_id from ${from} where ${condition}
  on conflict do nothing`

/** The unlinks with their outcomes. A link that does not exist is `missing`. Reads `targets` (the tasks). */
export const checkedUnlinks = (p: ContextPlaceholders): SQL => {
  const allowed = allowsTaskTag('task_tag.change', p, target)
  const outcome = outcomeOfChecks({ allowed, etag: taskEtag(target), ifMatch: sql`if_match` })
  return sql`
    select ${index}, target.id, unlinks.tag_id,
      case when present.tag_id is null then 'missing' else ${outcome} end as outcome
    from unlinks left join targets target on target.id = unlinks.task_id
      left join task_tags present on present.task_id = target.id and present.tag_id = unlinks.tag_id`
}

/** Removes tags from tasks for the unlinks (alias `unlink`) that meet a condition. A trigger updates the tasks. */
export const deleteLinks = (from: SQL, condition: SQL): SQL => sql`
  delete from task_tags using ${from}
  where task_tags.task_id = unlink.id and task_tags.tag_id = unlink.tag_id and ${condition}`

/** Increments the version of the tasks in `ids`. */
export const touchTasks = (ids: SQL): SQL => sql`
  update tasks task set ${assignments<'tasks'>({ version: sql`task.version + 1` })} where id in (${ids})`

/**
 * The version of a locked task after a trigger on another table has counted a change: at the end of the statement, so that
 * the statement itself reads the version before.
 */
export const versionAfterTrigger = (row: SQL): SQL => sql`${columnsOf<'tasks'>(row).version} + 1`

const unlessMissing = (outcome: SQL): SQL =>
  sql`case when target.id is null then 'missing' else ${outcome} end`

/** The columns of the statements above that contain an item's outcome. */
interface ItemRow {
  readonly outcome: string
  readonly unknown_tag?: string | null
}

/** Reads an item's outcome. `tagIds` are the ones in the request; an unknown tag is reported by its position in them. */
export const readItemOutcome = <R extends ItemRow>(
  row: R | null | undefined,
  tagIds: readonly string[] = [],
): Outcome<R> => {
  if (row == null) return missing
  switch (row.outcome) {
    case 'done':
      return done(row)
    case 'unknown_owner':
      return { outcome: 'unknown_reference', pointer: '/owner_id', kind: 'user' }
    case 'unknown_assignee':
      return { outcome: 'unknown_reference', pointer: '/assignee_id', kind: 'user' }
    case 'unknown_tag': {
      const place = tagIds.indexOf(row.unknown_tag ?? '')
      return { outcome: 'unknown_reference', pointer: `/tag_ids/${place}`, kind: 'tag' }
    }
    default:
      return readOutcome(row)
  }
}
