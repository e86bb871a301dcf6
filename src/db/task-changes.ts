import type { ChangePosition } from '../domain/change-cursors.ts'
import { listReader, type Principal, type Role } from '../domain/permissions.ts'
import { untilNone } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import type { OpContext } from './engine/context.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { assignments, columnsOf } from './schema/columns.ts'
import { databaseId, type Identity, parseIdentity } from './identity.ts'
import { taskJson } from './read-models.ts'
import { renderedRows } from './engine/rendered-rows.ts'
import { unionOfBranches } from './access/branches.ts'
import { isOfReader, taskBranches } from './access/permissions.ts'
import { compile, query, statement } from './engine/statement.ts'

/**
 * The change feed: changes to tasks, in transaction order. PostgreSQL does not expose the order of commits, only a horizon:
 * every transaction before the oldest running one has ended. The feed stops at the horizon, so that nothing that commits later
 * can sort before changes that a client has already read. Each task appears once, in its current state: at its last change, or
 * as a tombstone at the transaction that made it invisible to the caller.
 */

/** Changes that bring a client's copy up to date. `changed` and `deleted` are JSON arrays as text. */
export interface TaskChanges {
  /** Tasks. */
  readonly changed: string
  /** Ids. */
  readonly deleted: string
  readonly next: ChangePosition
  readonly hasMore: boolean
}

const task = sql.raw('task')
const tombstone = columnsOf<'task_tombstones'>(sql.raw('tombstone'))
const history = columnsOf<'change_history'>(sql.raw('history'))
const horizon = sql.raw('pg_snapshot_xmin(pg_current_snapshot())')
const nil = '00000000-0000-0000-0000-000000000000'

const parameters = {
  epoch: 'int?',
  changed_in: 'xid8',
  id: 'uuid',
  tombstones_from: 'xid8?',
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
  tombstones_from: 'text',
} as const

const selectFor = (role: Role) =>
  query(`task_changes.select_for_${role}`, parameters, columns, (p) => {
    const tombstonesFrom = sql`coalesce(${p.tombstones_from}, ${horizon})`
    const inOrder = (id: SQL): SQL => sql`
      (changed_in, ${id}) > (${p.changed_in}, ${p.id}) and changed_in < ${horizon}
      order by changed_in, ${id} limit ${p.limit} + 1`
    const seen = unionOfBranches(
      taskBranches('task.see', role, p),
      (isRepeated) => (condition) => sql`
        select changed_in, id, true as is_seen, ${isRepeated} as is_repeated
        from tasks item where ${condition} and ${inOrder(sql`id`)}`,
    )
    const json = sql`(select ${taskJson(task)} from tasks task where id = numbered.id and is_seen)`
    return sql`
      with recursive picked as (
        select changed_in, id, is_seen from (${seen}) seen union all (
          select ${tombstone.changed_in}, ${tombstone.task_id}, false from task_tombstones tombstone
          where ${isOfReader(role, p, tombstone.user_id)} and changed_in >= ${tombstonesFrom}
            and ${inOrder(sql`task_id`)})
      ), numbered as (
        select picked.*, row_number() over (order by changed_in, id) as position from picked
      ), ${renderedRows(json, p.limit)}, page as (
        select id, changed_in, is_seen, position, json from numbered join rendered using (position)
      )
      select
        coalesce(${p.epoch} <> coalesce(epoch, 1) or ${p.tombstones_from} <= coalesce(pruned_through, '0')
          or ${p.changed_in} > ${horizon}, false) as is_expired,
        (select '[' || coalesce(string_agg(json, ',' order by position), '') || ']' from page where is_seen) as changed,
        (select '[' || coalesce(string_agg(to_json(id)::text, ',' order by position), '') || ']'
          from page where not is_seen) as deleted,
        (select count(*) from numbered) > (select count(*) from page) as has_more,
        (select changed_in::text from page order by position desc limit 1) as last_changed_in,
        (select id::text from page order by position desc limit 1) as last_id,
        coalesce(epoch, 1) as epoch, ${horizon}::text as horizon, ${tombstonesFrom}::text as tombstones_from
      from (values (true)) always left join change_history history on ${history.singleton}`
  })

const select = { member: selectFor('member'), admin: selectFor('admin') }

/**
 * The changes after `position`, or from the beginning if it is null. Returns null if the position has expired: tombstones
 * after it have been removed, or it belongs to another history.
 */
export const selectTaskChanges = async (
  ctx: OpContext<Principal>,
  page: { readonly all: boolean; readonly position: ChangePosition | null; readonly limit: number },
): Promise<TaskChanges | null> => {
  const { position, limit } = page
  const { role } = listReader(ctx.principal, page)
  const values = {
    epoch: position?.epoch ?? null,
    changed_in: position?.changedIn ?? '0',
    id: position?.id ?? nil,
    tombstones_from: position?.tombstonesFrom ?? null,
    limit,
  }
  const [row] = await select[role](ctx, values)
  if (row === undefined) throw new Error('A statement of changes answers with one row')
  if (row.is_expired) return null
  const { changed, deleted, epoch, last_changed_in, last_id } = row
  // On the last page the client is up to date with the horizon. The nil id sorts before every task's id.
  const next =
    row.has_more && last_changed_in !== null && last_id !== null
      ? { epoch, changedIn: last_changed_in, id: last_id, tombstonesFrom: row.tombstones_from }
      : { epoch, changedIn: row.horizon, id: nil, tombstonesFrom: row.horizon }
  return { changed, deleted, next, hasMore: row.has_more }
}

const batch = 2_000

const pruneBatch = statement(
  'task_tombstones.delete_old',
  { days: 'int', limit: 'int' },
  { pruned: 'int8' },
  (p) => sql`
    with pruned as (
      delete from task_tombstones where ctid = any(array(
        select ctid from task_tombstones tombstone
        where ${tombstone.created_at} < now() - make_interval(days => ${p.days}) limit ${p.limit}))
      returning changed_in
    ), noted as (
      insert into change_history as history (pruned_through)
      select changed_in from pruned order by changed_in desc limit 1
      on conflict (singleton) do update
        set ${assignments<'change_history'>({
          pruned_through: sql`greatest(${history.pruned_through}, excluded.pruned_through)`,
        })}
    )
    select count(*) as pruned from pruned`,
)

/** Removes tombstones older than `days`. A client that has not read the feed since then must start over. */
export const removeOldTombstones = async (db: Database, days: number, stop: AbortSignal): Promise<void> => {
  await untilNone(async () => (await pruneBatch(db, { days, limit: batch }))[0]?.pruned ?? 0, stop)
}

/** Random rather than a counter: a dump can be restored twice, and each copy has its own history. */
const newEpoch = sql.raw('floor(random() * 2147483647)::int')

const noteOriginOnce = statement(
  'change_history.note_origin',
  {},
  { database: 'text', transaction: 'text' },
  () => sql`
    with other as (
      select from change_history where origin <> ${databaseId}
    ), forgotten as (
      delete from task_tombstones where exists (select from other)
    )
    insert into change_history as history (origin) values (${databaseId})
    on conflict (singleton) do update set ${assignments<'change_history'>({
      origin: sql`excluded.origin`,
      epoch: sql`case when exists (select from other) then ${newEpoch} else ${history.epoch} end`,
      pruned_through: sql`case when exists (select from other) then '0' else ${history.pruned_through} end`,
    })}
    returning origin as database, pg_current_xact_id()::text as transaction`,
)

const restampBatch = statement(
  'tasks.restamp',
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
      delete from task_tombstones where exists (select from ahead)
    ), restamped as (
      update tasks set ${assignments<'tasks'>({ changed_in: sql`'0'` })} from ahead where tasks.id = ahead.id returning tasks.id
    )
    select count(*) as restamped from restamped`,
)

/**
 * Starts a new history if the current one originates in another database: a dump was restored, or rows were copied. Their
 * transaction ids may be ahead of this database's.
 */
export const noteOrigin = async (db: Database): Promise<Identity> => {
  const [origin] = await noteOriginOnce(db, {})
  for (let restamped = batch; restamped === batch;) {
    const [row] = await restampBatch(db, { limit: batch })
    restamped = row?.restamped ?? 0
  }
  return parseIdentity(origin)
}

/** Starts a new history unconditionally, since a file-level copy of a database cannot detect that it is a copy. */
export const beginHistoryAnew = compile(
  'change_history.begin_anew',
  sql`
  with forgotten as (delete from task_tombstones)
  insert into change_history (epoch, origin) values (${newEpoch}, ${databaseId})
  on conflict (singleton) do update set epoch = excluded.epoch, origin = excluded.origin, pruned_through = '0'`,
).text
