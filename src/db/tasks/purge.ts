import { batchOf, countingStatement, deletionOfBatch, untilNone } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import {
  aliasedTable,
  type AnyPgColumn,
  isNotNull,
  type PgTable,
  type SQL,
  sql,
  type SQLWrapper,
} from '../schema/drizzle.ts'
import {
  attachments,
  comments,
  feeds,
  idempotencyKeys,
  imports,
  notifications,
  projects,
  reminders,
  tags,
  taskFollowers,
  tasks,
  taskTags,
  uploads,
  users,
  webhookDeliveries,
  webhooks,
} from '../schema/tables.ts'
import { TemporaryFailure } from '../engine/errors.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { statement, type StatementName } from '../statements/statement.ts'
import { deletableTasks } from './deletions.ts'
import { untagging } from './tag-links.ts'

/**
 * Purges deleted tags, webhooks, projects and users. A deletion only sets `deleted_at` (for a project in the trash, `purged_at`),
 * which hides the row from every reader. Its dependent rows, of which there may be very many, are removed here in batches, and the
 * row itself last. Tasks and tags that a deleted user owns in a project are handed to another member instead.
 */

const person = aliasedTable(users, 'person')
const link = aliasedTable(taskTags, 'link')

/** Rows per statement; a task takes up to a millisecond. */
export const purgeBatch = 100

const parameters = { id: 'uuid' } as const
type P = Placeholders<typeof parameters>
type Step = (db: Database, values: { readonly id: string }) => Promise<number>

/** Rows locked by another transaction are left to a later round. */
const deletion = (name: StatementName, table: PgTable, condition: (p: P) => SQL) =>
  deletionOfBatch(name, { parameters, table, condition, limit: purgeBatch })

/** Takes deleted tags, those of a condition, from a batch of tasks. */
const untag = (name: StatementName, condition: (p: P) => SQL): Step => {
  const untagBatch = untagging(name, condition, purgeBatch)
  return (db, values) => db.transaction((transaction) => untagBatch({ db: transaction }, values), null)
}

const untagOne = untag('task_tags.purge_tag', (p) => sql`${link.tag_id} = ${p.id}`)

const untagProject = untag(
  'task_tags.purge_project',
  (p) => sql`${link.tag_id} in (select id from tags where ${tags.project_id} = ${p.id})`,
)

const removeTag = statement(
  'purge.remove_tag',
  parameters,
  {},
  (p) => sql`
    delete from tags where id = ${p.id} and ${tags.deleted_at} is not null
      and not exists (select from task_tags where tag_id = ${p.id})`,
)

const batchSize = sql.raw(String(purgeBatch))

const purgeProjectTasks = countingStatement(
  'tasks.purge_project',
  parameters,
  () => sql`delete from tasks where id in (select id from deletable) returning 1`,
  (p) => deletableTasks(sql`${tasks.project_id} = ${p.id}`, batchSize),
)

const removeProject = statement(
  'purge.remove_project',
  parameters,
  {},
  (p) => sql`
    delete from projects where id = ${p.id} and ${projects.purged_at} is not null
      and not exists (select from tasks where ${tasks.project_id} = ${p.id})
      and not exists (select from task_tags link join tags on ${tags.id} = ${link.tag_id} where ${tags.project_id} = ${p.id})`,
)

/**
 * A statement that changes tasks (common table expressions) and records an event of each (a query with a row per task). Counts them.
 */
const recordingStatement = (name: StatementName, change: (p: P) => SQL, record: (p: P) => SQL): Step => {
  const run = statement(
    name,
    parameters,
    { changed: 'int8' },
    (p) => sql`
      with ${change(p)}, recorded as materialized (${record(p)}) select count(*) as changed from recorded`,
  )
  return async (db, values) => (await run(db, values))[0]?.changed ?? 0
}

/** The member with the highest role in a project, who is locked against deletion. */
const heirOf = (projectId: SQLWrapper): SQL => sql`
  select ${person.id} as heir_id from project_grants granted join users person on ${person.id} = granted.user_id
  where granted.project_id = ${projectId} and ${person.deleted_at} is null
  order by role_rank(granted.role) desc, ${person.id} limit 1 for key share of person skip locked`

/**
 * Hands a batch of tasks that a user owns in projects to their heirs. Tasks of a project without members stay; they are deleted with
 * the project.
 */
const transferTasks = recordingStatement(
  'tasks.transfer',
  (p) => sql`
    handed as (
      select ${tasks.id}, heir_id from tasks cross join lateral (${heirOf(tasks.project_id)}) heir
      where ${tasks.owner_id} = ${p.id} and ${tasks.project_id} is not null
      limit ${sql.raw(String(purgeBatch))} for no key update of tasks skip locked
    ), given as (
      update tasks set owner_id = heir_id, version = version + 1, updated_at = clock_timestamp()
      from handed where ${tasks.id} = handed.id returning tasks.*
    ), counted as (
      insert into task_counts (user_id, tasks) select owner_id, count(*) from given group by owner_id order by owner_id
      on conflict (user_id) do update set tasks = task_counts.tasks + excluded.tasks
    )`,
  (p) => sql`
    select record_event('task.updated', id, project_id, owner_id, assignee_id, null,
      jsonb_build_object('owner_id', ${p.id}), jsonb_build_object('owner_id', owner_id))::text from given`,
)

/** Hands a batch of tags likewise. */
const transferTags = countingStatement('tags.transfer', parameters, (p) =>
  builder
    .update(tags)
    .set({ owner_id: sql`handed.heir_id` })
    .from(
      sql`(
          select ${tags.id}, heir_id from tags cross join lateral (${heirOf(tags.project_id)}) heir
          where ${tags.owner_id} = ${p.id} and ${tags.project_id} is not null and ${tags.deleted_at} is null
          limit ${sql.raw(String(purgeBatch))} for no key update of tags skip locked
        ) handed`,
    )
    .where(sql`${tags.id} = handed.id`)
    .returning({ id: tags.id }),
)

/** Deletes a batch of a user's personal tasks. An assignee sees that. */
const deletePersonalTasks = recordingStatement(
  'tasks.purge_user',
  (p) => sql`
    ${deletableTasks(sql`${tasks.owner_id} = ${p.id} and ${tasks.project_id} is null`, batchSize)},
    deleted as (delete from tasks where id in (select id from deletable) returning *)`,
  () => sql`
    select case when deleted_at is null and assignee_id <> owner_id then
      record_event('task.deleted', id, null, owner_id, assignee_id, null, '{}', '{}')::text end from deleted`,
)

/** Takes a batch of a user's tasks from them. */
const unassignTasks = recordingStatement(
  'tasks.purge_assignee',
  (p) => sql`
    unassigned as (
      update tasks set assignee_id = null, version = version + 1, updated_at = clock_timestamp()
      where ${batchOf(tasks, sql`${tasks.assignee_id} = ${p.id}`, purgeBatch)} returning *
    )`,
  (p) => sql`
    select record_event('task.updated', id, project_id, owner_id, null, null,
      jsonb_build_object('assignee_id', ${p.id}), jsonb_build_object('assignee_id', null))::text from unassigned`,
)

/** Deletes deliveries of webhooks that meet a condition. The webhooks themselves are few, and are deleted by a cascade. */
const deletionOfDeliveries = (name: StatementName, condition: (p: P) => SQL) =>
  deletion(name, webhookDeliveries, (p) => sql`webhook_id in (select id from webhooks where ${condition(p)})`)

const purgeDeliveries = deletionOfDeliveries('webhook_deliveries.purge_webhook', (p) => sql`id = ${p.id}`)

const purgeProjectDeliveries = deletionOfDeliveries(
  'webhook_deliveries.purge_project',
  (p) => sql`${webhooks.project_id} = ${p.id}`,
)

const removeWebhook = statement(
  'purge.remove_webhook',
  parameters,
  {},
  (p) => sql`
    delete from webhooks where id = ${p.id} and ${webhooks.deleted_at} is not null
      and not exists (select from webhook_deliveries where webhook_id = ${p.id})`,
)

const userSteps: readonly Step[] = [
  untag(
    'task_tags.purge_user',
    (p) =>
      sql`${link.tag_id} in (select id from tags where ${tags.owner_id} = ${p.id} and ${tags.deleted_at} is not null)`,
  ),
  deletion(
    'tags.purge_user',
    tags,
    (p) => sql`
      ${tags.owner_id} = ${p.id} and ${tags.deleted_at} is not null and not exists (select from task_tags where ${taskTags.tag_id} = ${tags.id})`,
  ),
  deletePersonalTasks,
  transferTasks,
  transferTags,
  unassignTasks,
  countingStatement(
    'attachments.purge_uploader',
    parameters,
    (p) => sql`
      update attachments set uploaded_by = null
      where ${batchOf(attachments, sql`uploaded_by = ${p.id}`, purgeBatch)} returning 1`,
  ),
  deletion('notifications.purge_user', notifications, (p) => sql`user_id = ${p.id}`),
  deletion('task_followers.purge_user', taskFollowers, (p) => sql`user_id = ${p.id}`),
  deletion('reminders.purge_user', reminders, (p) => sql`user_id = ${p.id}`),
  countingStatement(
    'comments.purge_author',
    parameters,
    (p) => sql`
      update comments set author_id = null, version = version + 1
      where ${batchOf(comments, sql`author_id = ${p.id}`, purgeBatch)} returning 1`,
  ),
  deletionOfDeliveries('webhook_deliveries.purge_user', (p) => sql`${webhooks.owner_id} = ${p.id}`),
  deletion('feeds.purge_user', feeds, (p) => sql`owner_id = ${p.id}`),
  deletion('uploads.purge_user', uploads, (p) => sql`user_id = ${p.id}`),
  deletion('idempotency_keys.purge_user', idempotencyKeys, (p) => sql`principal_id = ${p.id}`),
]

// The projects that an import fills are found by it.
const removeUser = statement(
  'purge.remove_user',
  parameters,
  {},
  (p) => sql`
    delete from users where id = ${p.id} and ${users.deleted_at} is not null
      and not exists (select from tasks where ${p.id} in (${tasks.owner_id}, ${tasks.assignee_id}))
      and not exists (select from tags where ${tags.owner_id} = ${p.id})
      and not exists (
        select from projects join imports on ${imports.id} = ${projects.filling_import_id}
        where ${imports.user_id} = ${p.id} and ${projects.purged_at} is null)`,
)

/** Selects the ids of hidden rows. */
const hiddenRows = (
  name: StatementName,
  table: typeof tags | typeof projects | typeof webhooks | typeof users,
  hiddenAt: AnyPgColumn,
) => builtStatement(name, {}, (db) => db.select({ id: table.id }).from(table).where(isNotNull(hiddenAt)))

const selectTags = hiddenRows('purge.select_tags', tags, tags.deleted_at)
const selectProjects = hiddenRows('purge.select_projects', projects, projects.purged_at)
const selectWebhooks = hiddenRows('purge.select_webhooks', webhooks, webhooks.deleted_at)
const selectUsers = hiddenRows('purge.select_users', users, users.deleted_at)

/**
 * Removes the first batch of each kind of row that belongs to a deleted user; for most users that is everything.
 * A temporary failure is ignored: the user is already deleted, and the next round continues.
 */
export const purgeUserOnce = async (db: Database, id: string): Promise<void> => {
  try {
    let isDone = true
    for (const step of userSteps) isDone = (await step(db, { id })) < purgeBatch && isDone
    if (isDone) await removeUser(db, { id })
  } catch (error) {
    if (!(error instanceof TemporaryFailure)) throw error
  }
}

/** Removes a project that is being deleted permanently, with its dependent rows. */
export const purgeProjectRows = async (db: Database, id: string, stop: AbortSignal): Promise<void> => {
  await untilNone(() => purgeProjectTasks(db, { id }), stop)
  await untilNone(() => untagProject(db, { id }), stop)
  await untilNone(() => purgeProjectDeliveries(db, { id }), stop)
  if (!stop.aborted) await removeProject(db, { id })
}

/** Removes deleted tags, webhooks, projects and users with their dependent rows. Several processes may run it concurrently, on different rows. */
export const purgeDeleted = async (db: Database, stop: AbortSignal): Promise<void> => {
  for (const { id } of await selectTags(db, {})) {
    await untilNone(() => untagOne(db, { id }), stop)
    if (stop.aborted) return
    await removeTag(db, { id })
  }
  for (const { id } of await selectWebhooks(db, {})) {
    await untilNone(() => purgeDeliveries(db, { id }), stop)
    if (stop.aborted) return
    await removeWebhook(db, { id })
  }
  for (const { id } of await selectProjects(db, {})) {
    await purgeProjectRows(db, id, stop)
    if (stop.aborted) return
  }
  for (const { id } of await selectUsers(db, {})) {
    for (const step of userSteps) await untilNone(() => step(db, { id }), stop)
    if (stop.aborted) return
    await removeUser(db, { id })
  }
}
