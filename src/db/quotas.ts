import { done, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { allowsTask, allowsUser } from './access/permissions.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { OpContext, StatementContext, TransactionContext } from './engine/context.ts'
import { readOutcome } from './engine/outcome.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query, statement } from './engine/statement.ts'
import { userUsageJson } from './read-models.ts'
import { columnsOf } from './schema/columns.ts'
import { and, eq, isNull, type SQL, sql } from './schema/drizzle.ts'
import { users } from './schema/tables.ts'

/** The quotas of the installation; null is unlimited. */
export interface Quotas {
  readonly attachmentBytes: number | null
  readonly tasks: number | null
}

/** Webhooks that a user may own. The contract says so. */
export const maxWebhooks = 100

/**
 * `getUserUsage` stops counting tasks after this many, whatever the quota. The embedded database counts 200,000 tasks in up to 1.5 s
 * while the table is not vacuumed.
 */
const maxCountedTasks = sql.raw('20000')

/** The quota that applies to a user: their own, where 0 is unlimited, or that of the installation. Null is unlimited. */
export const effectiveQuota = (own: SQL, ofInstallation: SQL): SQL =>
  sql`case when ${own} is null then ${ofInstallation} else nullif(${own}, 0) end`

/** Locks a user whose counters a transaction changes, or whose rows it counts: another one waits, and then counts its rows as well. */
export const lockCounters = builtStatement('users.lock_counters', { id: 'uuid' }, (db, p) =>
  db.select({ id: users.id }).from(users).where(eq(users.id, p.id)).for('no key update'),
)

/** The size of a user's attachments, and the quota that replaces that of the installation: see `effectiveQuota`. */
export interface StorageUse {
  readonly used: number
  readonly own_quota: number | null
}

const selectStorageUse = builtStatement('users.select_storage_use', { id: 'uuid' }, (db, p) =>
  db
    .select({ used: users.attachment_bytes, own_quota: users.attachment_quota_bytes })
    .from(users)
    .where(and(eq(users.id, p.id), isNull(users.deleted_at))),
)

/** What the caller uses of the storage; null if they were deleted meanwhile. */
export const readStorageUse = async ({
  db,
  principal,
}: StatementContext<Principal>): Promise<StorageUse | null> =>
  (await selectStorageUse(db, { id: principal.userId }))[0] ?? null

/** The same, under a lock. */
export const lockStorageUse = async (tx: TransactionContext<Principal>): Promise<StorageUse | null> => {
  const [, use] = await Promise.all([lockCounters(tx.db, { id: tx.principal.userId }), readStorageUse(tx)])
  return use
}

const charge = builtStatement('users.charge_attachment', { id: 'uuid', size: 'int8' }, (db, p) =>
  db
    .update(users)
    .set({ attachment_bytes: sql`${users.attachment_bytes} + ${p.size}` })
    .where(eq(users.id, p.id)),
)

/** Adds an attachment to what the caller uses. A trigger subtracts it when it is deleted. */
export const chargeAttachment = async (
  { db, principal }: TransactionContext<Principal>,
  size: number,
): Promise<void> => {
  await charge(db, { id: principal.userId, size })
}

/** Counts the tasks that a user owns, including the trash, up to one more than `limit`. */
const countTasks = (owner: SQL, limit: SQL): SQL =>
  sql`(select count(*) from (select from tasks where owner_id = ${owner} limit ${limit} + 1) owned)`

/** The number of webhooks that count towards the quota of a user. */
export const countWebhooks = (owner: SQL): SQL<number> => {
  const { owner_id, deleted_at } = columnsOf<'webhooks'>(sql.raw('owned'))
  return sql<number>`(select count(*)::int from webhooks owned where ${owner_id} = ${owner} and ${deleted_at} is null)`
}

/** `quota`: the task quota of the installation. */
const ownerParameters = { owner_id: 'uuid', quota: 'int8?' } as const

const taskQuotaOf = (p: Placeholders<typeof ownerParameters>): SQL => {
  const { id, task_quota } = columnsOf<'users'>(sql.raw('owner'))
  return sql`select ${effectiveQuota(task_quota, p.quota)} as quota from users owner where ${id} = ${p.owner_id}`
}

/** The task quota of a user; null is unlimited. */
export const selectTaskQuota = statement(
  'quotas.select_task_quota',
  ownerParameters,
  { quota: 'int8?' },
  taskQuotaOf,
)

/** The task quota of a user, and how many tasks they own, counted up to one more than the quota; 0 without a quota. */
export const countOwnedTasks = statement(
  'quotas.count_owned_tasks',
  ownerParameters,
  { quota: 'int8?', tasks: 'int8' },
  (p) => sql`
    select quota, case when quota is null then 0 else ${countTasks(p.owner_id, sql`quota`)} end as tasks
    from (${taskQuotaOf(p)}) owner`,
)

const selectUsage = query(
  'quotas.select_usage',
  { id: 'uuid', attachment_bytes: 'int8?', tasks: 'int8?' },
  { outcome: 'text', json: 'text?' },
  (p) => {
    const person = sql.raw('person')
    const { id, attachment_bytes, attachment_quota_bytes, task_quota } = columnsOf<'users'>(person)
    const taskQuota = effectiveQuota(task_quota, p.tasks)
    const json = userUsageJson({
      attachment_bytes: [attachment_bytes, effectiveQuota(attachment_quota_bytes, p.attachment_bytes)],
      tasks: [countTasks(id, sql`least(${taskQuota}, ${maxCountedTasks})`), taskQuota],
      webhooks: [countWebhooks(id), sql.raw(String(maxWebhooks))],
    })
    // Computed only for callers who may see it, so that others cannot infer the counts from the response time.
    const isAllowed = allowsUser('user.see_private', p, person)
    return sql`
      select case when ${isAllowed} then 'done' else 'forbidden' end as outcome, case when ${isAllowed} then ${json} end as json
      from users person where ${id} = ${p.id} and ${allowsUser('user.see', p, person)}`
  },
)

/** What a user uses of each resource with a quota, as JSON text. */
export const selectUserUsage = async (
  ctx: OpContext<Principal>,
  userId: string,
  { attachmentBytes, tasks }: Quotas,
): Promise<Outcome<{ readonly json: string }>> => {
  const [row] = await selectUsage(ctx, { id: userId, attachment_bytes: attachmentBytes, tasks })
  const usage = readOutcome(row)
  if (usage.outcome !== 'done') return usage
  const { json } = usage.value
  return json === null ? missing : done({ json })
}

/** A change that may give a task, and its subtasks, another owner. */
export interface Handover {
  readonly task_id: string
  readonly owner_id?: string | undefined
  /** Null moves the task, with its subtasks, to the personal tasks of its owner. */
  readonly project_id?: string | null | undefined
}

/** Counting stops here: a batch has 500 items, and a change that takes more than 500 subtasks along is refused. */
const maxHandedOver = sql.raw('1001')

const countHandedOver = query(
  'quotas.count_handed_over',
  { changes: 'json' },
  { owner_id: 'text', tasks: 'int8' },
  (p) => {
    const task = sql.raw('task')
    const { id, owner_id, project_id } = columnsOf<'tasks'>(task)
    const owner = sql`coalesce((change ->> 'owner_id')::uuid, ${owner_id})`
    const isPersonal = sql`case when change ? 'project_id' then change ->> 'project_id' is null else ${project_id} is null end`
    // The subtasks of a task that stays among the tasks of its owner are theirs already.
    return sql`
      with recursive tree as (
        select ${id}, ${owner_id} as present_owner, ${owner} as new_owner,
          ${isPersonal} and (${project_id} is not null or ${owner} <> ${owner_id}) as takes_subtasks
        from jsonb_array_elements(${p.changes} -> 'rows') change join tasks task on ${id} = (change ->> 'task_id')::uuid
        where ${allowsTask('task.see', p, task)}
        union all
        select subtask.id, subtask.owner_id, tree.new_owner, true
        from tree join tasks subtask on subtask.parent_id = tree.id and subtask.deleted_at is null
        where takes_subtasks
      )
      select new_owner::text as owner_id, count(*) as tasks from (select * from tree limit ${maxHandedOver}) handed
      where new_owner <> present_owner and new_owner <> ${p.caller} group by new_owner`
  },
)

/** How many tasks the changes hand over to each user other than the caller. Ignores tasks that the caller cannot see. */
export const selectHandedOver = (
  ctx: OpContext,
  changes: readonly Handover[],
): Promise<readonly { readonly owner_id: string; readonly tasks: number }[]> => {
  const fields = changes.map(({ task_id, owner_id, project_id }) => ({ task_id, owner_id, project_id }))
  return countHandedOver(ctx, { changes: { rows: fields } })
}
