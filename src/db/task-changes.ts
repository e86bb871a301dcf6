import type { ChangeFeed, ChangePosition } from '../domain/change-cursors.ts'
import { listReader, type Role } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { databaseId, type Identity, parseIdentity } from './identity.ts'
import { taskJson } from './read-models.ts'
import { maxPageOctets } from './lists/list.ts'
import { allowsTaskApart, callerOf, callerParameters } from './access/permissions.ts'
import type { Placeholders } from './engine/parameters.ts'
import { compile, onlyRow, statement } from './engine/statement.ts'

/**
 * Changes to tasks, in the order of the transactions that made them. PostgreSQL does not tell in which order transactions
 * ended, but it tells which of them have: all before the oldest that still runs. Changes are told of those alone, so that
 * nothing that is committed later can come before what was told. Each task is told once, as it is now: where it was
 * changed last, or where it left the caller's sight.
 */

/** What a client has to take over to have what the principal sees; both are texts of JSON arrays. */
export interface TaskChanges {
  /** Tasks. */
  readonly changed: string
  /** Ids. */
  readonly deleted: string
  readonly next: ChangePosition
  readonly hasMore: boolean
}

const task = sql.raw('task')
const horizon = sql.raw('pg_snapshot_xmin(pg_current_snapshot())')
const nil = '00000000-0000-0000-0000-000000000000'

const parameters = {
  ...callerParameters,
  epoch: 'int?',
  changed_in: 'xid8',
  id: 'uuid',
  departures_from: 'xid8?',
  limit: 'int',
} as const

const columns = {
  is_expired: 'bool',
  changed: 'text',
  deleted: 'text',
  has_more: 'bool',
  last_changed_in: 'text?',
  last_id: 'text?',
  epoch: 'int',
  horizon: 'text',
  departures_from: 'text',
} as const

/** By the role in which the feed is read, a condition on task_departures. */
const departed: Readonly<Record<Role, (p: Placeholders<typeof parameters>) => SQL>> = {
  admin: () => sql`user_id is null`,
  member: (p) => sql`user_id = ${p.caller}`,
}

/** Puts together what an index of its own serves each: why the caller sees a task, and what has departed. */
const selectFor = (role: Role) =>
  statement(`task_changes.select_for_${role}`, parameters, columns, (p) => {
    const departuresFrom = sql`coalesce(${p.departures_from}, ${horizon})`
    const inOrder = (id: SQL): SQL => sql`
      (changed_in, ${id}) > (${p.changed_in}, ${p.id}) and changed_in < ${horizon}
      order by changed_in, ${id} limit ${p.limit} + 1`
    const seen = allowsTaskApart('task.see', role, p, task).map(
      (reason) => sql`(
        select changed_in, id, true as is_seen from tasks task where ${reason} and ${inOrder(sql`id`)})`,
    )
    // Renders one task after the other until the page is full, as lists do.
    const json = sql`cross join lateral (
      select (select ${taskJson(task)} from tasks task where id = numbered.id and is_seen) as json offset 0) item`
    return sql`
      with recursive picked as (
        ${sql.join(seen, sql` union all `)} union all (
          select changed_in, task_id, false from task_departures
          where ${departed[role](p)} and changed_in >= ${departuresFrom} and ${inOrder(sql`task_id`)})
      ), numbered as (
        select picked.*, row_number() over (order by changed_in, id) as position from picked
      ), rendered (position, json, octets) as (
        select position, item.json, coalesce(octet_length(item.json), 0) from numbered ${json} where position = 1
        union all
        select numbered.position, item.json, octets + coalesce(octet_length(item.json), 0)
        from rendered join numbered on numbered.position = rendered.position + 1 ${json}
        where octets < ${sql.raw(String(maxPageOctets))} and numbered.position <= ${p.limit}
      ), page as (
        select id, changed_in, is_seen, position, json from numbered join rendered using (position)
      )
      select
        coalesce(${p.epoch} <> coalesce(epoch, 1) or ${p.departures_from} <= coalesce(pruned_through, '0')
          or ${p.changed_in} > ${horizon}, false) as is_expired,
        (select '[' || coalesce(string_agg(json, ',' order by position), '') || ']' from page where is_seen) as changed,
        (select '[' || coalesce(string_agg(to_json(id)::text, ',' order by position), '') || ']'
          from page where not is_seen) as deleted,
        (select count(*) from numbered) > (select count(*) from page) as has_more,
        (select changed_in::text from page order by position desc limit 1) as last_changed_in,
        (select id::text from page order by position desc limit 1) as last_id,
        coalesce(epoch, 1) as epoch, ${horizon}::text as horizon, ${departuresFrom}::text as departures_from
      from (values (true)) always (singleton) left join change_history using (singleton)`
  })

const select = { member: selectFor('member'), admin: selectFor('admin') }

/**
 * What has changed in the feed after `position`, or since the beginning where it is null. Null when the history before
 * that is gone.
 */
export const selectTaskChanges = async (
  db: Database,
  feed: ChangeFeed,
  position: ChangePosition | null,
  limit: number,
): Promise<TaskChanges | null> => {
  const reader = listReader(feed.principal, feed)
  const values = {
    ...callerOf(reader),
    epoch: position?.epoch ?? null,
    changed_in: position?.changedIn ?? '0',
    id: position?.id ?? nil,
    departures_from: position?.departuresFrom ?? null,
    limit,
  }
  const row = onlyRow(await select[reader.role](db, values))
  if (row === null) throw new Error('A statement of changes answers with one row')
  if (row.is_expired) return null
  const { changed, deleted, epoch, last_changed_in, last_id } = row
  // At the end everything before the horizon is known, and there is no id as low as that of nothing.
  const next =
    row.has_more && last_changed_in !== null && last_id !== null
      ? { epoch, changedIn: last_changed_in, id: last_id, departuresFrom: row.departures_from }
      : { epoch, changedIn: row.horizon, id: nil, departuresFrom: row.horizon }
  return { changed, deleted, next, hasMore: row.has_more }
}

const batch = 2_000

const pruneBatch = statement(
  'task_changes.prune_batch',
  { days: 'int', limit: 'int' },
  { pruned: 'int8' },
  (p) => sql`
    with pruned as (
      delete from task_departures where ctid = any(array(
        select ctid from task_departures where created_at < now() - make_interval(days => ${p.days}) limit ${p.limit}))
      returning changed_in
    ), noted as (
      insert into change_history as history (pruned_through)
      select changed_in from pruned order by changed_in desc limit 1
      on conflict (singleton) do update
        set pruned_through = greatest(history.pruned_through, excluded.pruned_through)
    )
    select count(*) as pruned from pruned`,
)

/** Forgets what departed more than so many days ago. Whoever did not ask since then has to begin anew. */
export const removeOldDepartures = async (db: Database, days: number): Promise<void> => {
  let pruned = batch
  while (pruned === batch) pruned = onlyRow(await pruneBatch(db, { days, limit: batch }))?.pruned ?? 0
}

/** No number that counts up: a dump may be restored twice, and what follows are two histories. */
const newEpoch = sql.raw('floor(random() * 2147483647)::int')

const noteOriginOnce = statement(
  'task_changes.note_origin_once',
  {},
  { database: 'text', transaction: 'text' },
  () => sql`
    with other as (
      select from change_history where origin <> ${databaseId}
    ), forgotten as (
      delete from task_departures where exists (select from other)
    )
    insert into change_history as history (origin) values (${databaseId})
    on conflict (singleton) do update set
      origin = excluded.origin,
      epoch = case when exists (select from other) then ${newEpoch} else history.epoch end,
      pruned_through = case when exists (select from other) then '0' else history.pruned_through end
    returning origin as database, pg_current_xact_id()::text as transaction`,
)

const restampBatch = statement(
  'task_changes.restamp_batch',
  { limit: 'int' },
  { restamped: 'int8' },
  (p) => sql`
    with ahead as (
      select id from tasks
      where deleted_at is null and changed_in >= pg_snapshot_xmax(pg_current_snapshot()) limit ${p.limit}
    ), begun as (
      insert into change_history as history (epoch) select ${newEpoch} where exists (select from ahead)
      on conflict (singleton) do update set epoch = excluded.epoch, pruned_through = '0'
    ), forgotten as (
      delete from task_departures where exists (select from ahead)
    ), restamped as (
      update tasks set changed_in = '0' from ahead where tasks.id = ahead.id returning tasks.id
    )
    select count(*) as restamped from restamped`,
)

/**
 * Begins the history anew where it was made in another database: a dump was restored, or rows were copied here. Changes
 * may then have been made in transactions that are yet to come.
 */
export const noteOrigin = async (db: Database): Promise<Identity> => {
  const identity = parseIdentity(onlyRow(await noteOriginOnce(db, {})))
  let restamped = batch
  while (restamped === batch) restamped = onlyRow(await restampBatch(db, { limit: batch }))?.restamped ?? 0
  return identity
}

/** A statement that begins the history anew in any case: a copy of all files of a database cannot tell that it is one. */
export const beginHistoryAnew = compile(
  'change_history.begin_anew',
  sql`
  with forgotten as (delete from task_departures)
  insert into change_history (epoch, origin) values (${newEpoch}, ${databaseId})
  on conflict (singleton) do update set epoch = excluded.epoch, origin = excluded.origin, pruned_through = '0'`,
).text
