import type { components } from '../../../generated/openapi.ts'
import type { FieldChanges } from '../../domain/activity/changes.ts'
import type { TransactionContext } from '../statements/context.ts'
import type { Runner } from '../engine/transaction.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { statement } from '../statements/statement.ts'
import { aliasedTable, and, eq, sql } from '../schema/drizzle.ts'
import { events, tags, tasks } from '../schema/tables.ts'

type EventType = components['schemas']['EventType']

const task = aliasedTable(tasks, 'task')
const tag = aliasedTable(tags, 'tag')

const record = statement(
  'events.record',
  { type: 'text', project_id: 'uuid', before: 'json', after: 'json' },
  {},
  (p) =>
    sql`select record_event(${p.type}, null, ${p.project_id}, null, null, null, ${p.before}, ${p.after})::text as recorded`,
)

const setActor = statement(
  'events.set_actor',
  { id: 'uuid' },
  {},
  (p) => sql`select set_config('taskwright.actor', ${p.id}::text, true) as actor`,
)

/** Records the further events of a transaction in the name of a user who has just registered. */
export const actAs = async ({ db }: TransactionContext, id: string): Promise<void> => {
  await setActor(db, { id })
}

/** The changes of an event that says only what happened. */
const nothing: FieldChanges = { before: {}, after: {} }

/** Records an event of a project, in the name of the transaction's principal. */
export const recordProjectEvent = async (
  { db }: TransactionContext,
  type: Extract<EventType, `project.${string}`>,
  projectId: string,
  { before, after } = nothing,
): Promise<void> => {
  await record(db, { type, project_id: projectId, before, after })
}

const recordOfTask = statement(
  'events.record_of_task',
  { type: 'text', task_id: 'uuid', resource_id: 'uuid', before: 'json', after: 'json' },
  {},
  (p) =>
    sql`select record_event_of_task(${p.type}, ${p.task_id}, ${p.resource_id}, ${p.before}, ${p.after})::text as recorded`,
)

/** What an event of a task is about: a comment, an attachment, a tag or another task. */
interface TaskResource {
  readonly taskId: string
  readonly resourceId: string
}

/** Records an event of something that belongs to a task. */
export const recordEventOfTask = async (
  { db }: TransactionContext,
  type: EventType,
  { taskId, resourceId }: TaskResource,
  { before, after } = nothing,
): Promise<void> => {
  await recordOfTask(db, { type, task_id: taskId, resource_id: resourceId, before, after })
}

const forget = builtStatement('events.forget_values', { task_id: 'uuid', resource_id: 'uuid' }, (db, p) =>
  db
    .update(events)
    .set({ before: {}, after: {} })
    .where(and(eq(events.task_id, p.task_id), eq(events.resource_id, p.resource_id))),
)

/** Removes the values of a deleted resource from the history of its task. */
export const forgetEventValues = async (
  { db }: TransactionContext,
  { taskId, resourceId }: TaskResource,
): Promise<void> => {
  await forget(db, { task_id: taskId, resource_id: resourceId })
}

/** A task, and a tag that it has or had. */
export interface TaskTag {
  readonly taskId: string
  readonly tagId: string
}

const recordTags = statement(
  'events.record_tags',
  { type: 'text', task_ids: 'uuid[]', tag_ids: 'uuid[]' },
  {},
  (p) => {
    const value = sql`case when ${tag.id} is null then '{}'
      else jsonb_build_object('tag', jsonb_build_object('id', ${tag.id}, 'name', ${tag.name})) end`
    const isTagged = sql`${p.type} = 'task.tagged'`
    return sql`
      select record_event(${p.type}, ${task.id}, ${task.project_id}, ${task.owner_id}, ${task.assignee_id}, link.tag_id,
        case when ${isTagged} then '{}' else ${value} end, case when ${isTagged} then ${value} else '{}' end)::text as recorded
      from unnest(${p.task_ids}, ${p.tag_ids}) with ordinality link (task_id, tag_id, place)
        join tasks task on ${task.id} = link.task_id left join tags tag on ${tag.id} = link.tag_id
      order by place`
  },
)

const recordLinks = async (
  db: Runner,
  type: 'task.tagged' | 'task.untagged',
  links: readonly TaskTag[],
): Promise<void> => {
  if (links.length === 0) return
  const [task_ids, tag_ids] = [links.map(({ taskId }) => taskId), links.map(({ tagId }) => tagId)]
  await recordTags(db, { type, task_ids, tag_ids })
}

/** Records that tasks were given tags, in the order of `links`. */
export const recordTagged = (
  { db }: Pick<TransactionContext, 'db'>,
  links: readonly TaskTag[],
): Promise<void> => recordLinks(db, 'task.tagged', links)

/** Records that tags were taken from tasks. A tag that was deleted meanwhile has no name. */
export const recordUntagged = (
  { db }: Pick<TransactionContext, 'db'>,
  links: readonly TaskTag[],
): Promise<void> => recordLinks(db, 'task.untagged', links)
