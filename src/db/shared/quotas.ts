import { maxFeeds } from '../../domain/shared/feeds.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { allowsUser } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { constant } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { userUsageJson } from './read-models.ts'
import { aliasedTable, and, eq, isNull, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { exports, feeds, imports, tasks, uploads, users, webhooks } from '../schema/tables.ts'

const owned = aliasedTable(webhooks, 'owned')
const feed = aliasedTable(feeds, 'feed')
const owner = aliasedTable(users, 'owner')
const person = aliasedTable(users, 'person')

/** The quotas of the installation; null is unlimited. */
export interface Quotas {
  readonly attachmentBytes: number | null
  readonly interchangeBytes: number | null
  readonly tasks: number | null
}

/** Webhooks that a user may own. The contract says so. */
export const maxWebhooks = 100

/** `getUserUsage` stops counting tasks after this many, whatever the quota, so that it never reads a million rows. */
const maxCountedTasks = sql.raw('20000')

/** The quota that applies to a user: their own, where 0 is unlimited, or that of the installation. Null is unlimited. */
const effectiveQuota = (own: SQLWrapper, defaultQuota: SQL): SQL<number | null> =>
  sql`case when ${own} is null then ${defaultQuota} else nullif(${own}, 0) end`

/** Locks a user whose counters a transaction changes, or whose rows it counts: another one waits, and then counts its rows as well. */
export const lockCounters = rowLock('users.lock_counters', users, 'no key update')

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
  const { use } = await pipeline(tx.db, {
    counters: () => lockCounters(tx.db, { id: tx.principal.userId }),
    use: () => readStorageUse(tx),
  })
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
const ownedTasks = (userId: SQLWrapper, limit: SQL): SQL<number> =>
  sql`(select count(*) from (select from tasks where ${tasks.owner_id} = ${userId} limit ${limit} + 1) owned)`

/** The number of webhooks that count towards the quota of a user. */
export const countWebhooks = (userId: SQLWrapper): SQL<number> =>
  sql`(select count(*)::int from webhooks owned where ${owned.owner_id} = ${userId} and ${owned.deleted_at} is null)`

/** The number of feeds that count towards the bound of a user. */
export const countFeeds = (userId: SQLWrapper): SQL<number> =>
  sql`(select count(*)::int from feeds feed where ${feed.owner_id} = ${userId} and ${feed.revoked_at} is null)`

/** The size of the archives of a user's exports and of their files to import, with those that are being uploaded. */
const interchangeBytes = (userId: SQLWrapper): SQL<number> => sql`(select coalesce(sum(size), 0)::int8 from (
  select ${exports.size} from exports where ${exports.requested_by} = ${userId} and ${exports.storage_key} is not null
  union all select ${imports.size} from imports where ${imports.user_id} = ${userId} and ${imports.storage_key} is not null
  union all select ${uploads.upload_length} from uploads
    where ${uploads.user_id} = ${userId} and ${uploads.task_id} is null and ${uploads.import_id} is null and ${uploads.expires_at} > now()) file)`

const sumInterchange = statement(
  'quotas.sum_interchange',
  { id: 'uuid' },
  { bytes: 'int8' },
  (p) => sql`select ${interchangeBytes(p.id)} as bytes`,
)

/** What the caller keeps of exports and imports, in bytes. */
export const readInterchangeBytes = async ({ db, principal }: StatementContext<Principal>): Promise<number> =>
  expectRow(await sumInterchange(db, { id: principal.userId })).bytes

const addTasks = statement(
  'quotas.count_tasks',
  { user_ids: 'uuid[]', changes: 'text[]' },
  { user_id: 'text', tasks: 'int', task_quota: 'int?' },
  (p) => sql`
    with counted as (
      insert into task_counts (user_id, tasks)
      select user_id, change from unnest(${p.user_ids}, ${p.changes}::int[]) as changed (user_id, change) order by user_id
      on conflict (user_id) do update set tasks = task_counts.tasks + excluded.tasks returning user_id, tasks
    )
    select user_id::text, tasks, ${owner.task_quota} from counted join users owner on ${owner.id} = user_id`,
)

/** How many tasks a user owns, those in the trash included, and their own quota: null for that of the installation, 0 for none. */
export interface OwnedTasks {
  readonly user_id: string
  readonly tasks: number
  readonly task_quota: number | null
}

/** Adds to the numbers of tasks that users own. Their counts stay locked until the end of the transaction. */
export const countTasks = (
  { db }: TransactionContext,
  changes: ReadonlyMap<string, number>,
): Promise<readonly OwnedTasks[]> =>
  addTasks(db, { user_ids: [...changes.keys()], changes: [...changes.values()].map(String) })

const selectUsage = query(
  'quotas.select_usage',
  { id: 'uuid', attachment_bytes: 'int8?', interchange_bytes: 'int8?', tasks: 'int8?' },
  { json: 'text?' },
  (p) => {
    const { id, attachment_bytes, attachment_quota_bytes, task_quota } = person
    const taskQuota = effectiveQuota(task_quota, p.tasks)
    const json = userUsageJson({
      attachment_bytes: [attachment_bytes, effectiveQuota(attachment_quota_bytes, p.attachment_bytes)],
      interchange_bytes: [interchangeBytes(id), sql<number | null>`${p.interchange_bytes}`],
      tasks: [ownedTasks(id, sql`least(${taskQuota}, ${maxCountedTasks})`), taskQuota],
      webhooks: [countWebhooks(id), sql<number>`${constant(maxWebhooks)}`],
      feeds: [countFeeds(id), sql<number>`${constant(maxFeeds)}`],
    })
    // Computed only for callers who may see it, so that others cannot infer the counts from the response time.
    const isAllowed = allowsUser('user.see_private', p, person)
    return sql`
      select case when ${isAllowed} then ${json} end as json
      from users person where ${id} = ${p.id} and ${allowsUser('user.see', p, person)}`
  },
)

/** What a user uses of each resource with a quota, as JSON text: null if the caller sees the user, but not that. */
export const selectUserUsage = async (
  ctx: StatementContext<Principal>,
  userId: string,
  { attachmentBytes, interchangeBytes, tasks }: Quotas,
): Promise<{ readonly json: string | null } | null> =>
  firstRow(
    await selectUsage(ctx, {
      id: userId,
      attachment_bytes: attachmentBytes,
      interchange_bytes: interchangeBytes,
      tasks,
    }),
  )
