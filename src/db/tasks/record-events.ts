import type { FieldChanges } from '../../domain/activity/changes.ts'
import type { TransactionContext } from '../statements/context.ts'
import { anyOf } from '../statements/parameters.ts'
import { statement } from '../statements/statement.ts'
import { sql } from '../schema/drizzle.ts'

/** An event of a task itself, with what decides who may see it: the state after the change. */
export interface TaskEvent extends FieldChanges {
  readonly type: 'task.created' | 'task.updated' | 'task.deleted' | 'task.restored' | 'task.recurred'
  readonly task_id: string
  readonly project_id: string | null
  readonly owner_id: string
  readonly assignee_id: string | null
  /** The next occurrence of a task that recurred. */
  readonly resource_id?: string
}

const record = statement(
  'events.record_of_tasks',
  { events: 'json' },
  {},
  (p) => sql`
    select count(record_event(row.type, row.task_id, row.project_id, row.owner_id, row.assignee_id, row.resource_id, row.before, row.after)::text)
    from jsonb_to_recordset(${p.events} -> 'rows') as row (
      type text, task_id uuid, project_id uuid, owner_id uuid, assignee_id uuid, resource_id uuid, before jsonb, after jsonb)`,
)

/** Records events of tasks in their order, in the name of the transaction's principal. */
export const recordTaskEvents = async (
  { db }: Pick<TransactionContext, 'db'>,
  rows: readonly TaskEvent[],
): Promise<void> => {
  await record(db, { events: { rows } })
}

const recordTags = statement(
  'events.record_tags_of_new',
  { ids: 'uuid[]' },
  {},
  (p) => sql`
    select count(record_event('task.tagged', task.id, task.project_id, task.owner_id, task.assignee_id, tag.id, '{}',
      jsonb_build_object('tag', jsonb_build_object('id', tag.id, 'name', tag.name)))::text)
    from tasks task join task_tags link on link.task_id = task.id join tags tag on tag.id = link.tag_id
    where task.id = ${anyOf(p.ids)}`,
)

/** Records the tags of new tasks. */
export const recordTagsOfNew = async (
  { db }: Pick<TransactionContext, 'db'>,
  ids: readonly string[],
): Promise<void> => {
  await recordTags(db, { ids })
}
