import type { ChangeFilter, ChangePosition } from '../../domain/activity/change-cursors.ts'
import { listReader, type Principal, type Role } from '../../domain/shared/permissions.ts'
import { untilNone } from '../statements/batches.ts'
import type { Database } from '../engine/client.ts'
import { aliasedTable, type PgTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import {
  changeHistory,
  memberships,
  membershipTombstones,
  projects,
  tasks,
  taskTombstones,
} from '../schema/tables.ts'
import { restampEvents } from './events.ts'
import { databaseId, type Identity, parseIdentity } from '../shared/identity.ts'
import { taskJson } from '../shared/read-models.ts'
import { retentionTime } from '../shared/retention.ts'
import { renderedRows } from '../statements/rendered-rows.ts'
import { rowsOfMemberships, unionOfBranches } from '../access/branches.ts'
import { type CallerPlaceholders, changeBranches, seesTask } from '../access/permissions.ts'
import { isMember, isProjectLive } from '../access/access-relations.ts'
import type { ContextPlaceholders, StatementContext } from '../statements/context.ts'
import { orTooExpensive } from '../engine/errors.ts'
import { horizon } from '../shared/horizon.ts'
import { nilId } from '../../domain/shared/nil-id.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { expectRow } from '../statements/row-statements.ts'
import { compile, query, statement, type StatementName } from '../statements/statement.ts'

/**
 * The change feed: changes to tasks, in transaction order. PostgreSQL does not expose the order of commits, only a horizon:
 * every transaction before the oldest running one has ended. The feed stops at the horizon, so that nothing that commits later
 * can sort before changes that a client has already read. Each task appears in its current state: at its last change, or as a
 * tombstone at the transaction that made it invisible to the caller.
 *
 * For a user who joins a project, all of its tasks are at the transaction of joining; for a user who leaves it, at that of leaving.
 * At one transaction, they are ordered by their last changes. So the tasks of a project have the same order in the feeds of all
 * members. Every change of a user's view has one of these transactions, which cannot be before the horizon of the client's last
 * page: a membership or tombstone that replaces an earlier one is later, and a task that is still visible by another relation is
 * reported at the transaction of leaving, in its current state.
 */

const task = aliasedTable(tasks, 'task')
const item = aliasedTable(tasks, 'item')
const ended = aliasedTable(membershipTombstones, 'ended')
const tombstone = aliasedTable(taskTombstones, 'tombstone')
const history = aliasedTable(changeHistory, 'history')
const membership = aliasedTable(memberships, 'membership')

/** Changes that bring a client's copy up to date. `changed` and `deleted` are JSON arrays as text. */
export interface TaskChanges {
  /** Tasks. */
  readonly changed: string
  /** Ids. */
  readonly deleted: string
  readonly next: ChangePosition
  readonly hasMore: boolean
}

const parameters = {
  epoch: 'int?',
  at: 'xid8',
  changed_in: 'xid8',
  id: 'uuid',
  tombstones_from: 'xid8?',
  limit: 'int',
} as const

const filterParameters = {
  any_project: 'bool',
  no_project: 'bool',
  projects: 'uuid[]',
  any_assignee: 'bool',
  assignees: 'uuid[]',
} as const

const columns = {
  is_expired: 'bool',
  changed: 'text',
  deleted: 'text',
  has_more: 'bool',
  last_at: 'text?',
  last_changed_in: 'text?',
  last_id: 'text?',
  epoch: 'int',
  horizon: 'text',
  tombstones_from: 'text',
} as const

type P = Placeholders<typeof parameters> & ContextPlaceholders

const never = sql.raw("'0'::xid8")
const firstId = sql.raw(`'${nilId}'::uuid`)
const lastId = sql.raw("'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid")

/** Rows `(at, changed_in, id, is_seen, …)` of one source of the feed. */
interface Source {
  readonly from: SQL
  readonly id: SQLWrapper
  readonly changedIn: SQLWrapper
  readonly condition: SQL
  /** The columns of the index before the transaction of the last change, if any. */
  readonly prefix?: SQL
  readonly columns?: SQL
  readonly limit?: SQL
}

const firstRows = (
  p: P,
  at: SQL,
  { from, id, changedIn, condition, prefix, columns, limit }: Source,
): SQL => sql`
    select ${at} as at, ${changedIn} as changed_in, ${id} as id ${columns ?? sql``}
    from ${from} where ${condition}
    order by ${prefix ?? sql``} ${changedIn}, ${id} limit ${limit ?? sql`${p.limit} + 1`}`

/** The first rows of a source after the position, each at its last change, but not before the transaction `since`. */
const rowsAfter = (p: P, source: Source, since: SQLWrapper = never): SQL => {
  const { id, changedIn, condition } = source
  const changedAfter = sql`case when ${since} > ${p.at} then ${never} when ${since} = ${p.at} then least(${p.changed_in}, ${p.at}) else ${p.at} end`
  // Of rows at one transaction, those that have changed after it are the last.
  const idAfter = sql`case when ${since} > ${p.at} then ${firstId} when ${p.changed_in} > ${p.at} then ${lastId}
      when ${p.at} in (${since}, ${p.changed_in}) then ${p.id} else ${firstId} end`
  return firstRows(p, sql`greatest(${changedIn}, ${since})`, {
    ...source,
    condition: sql`${condition} and (${changedIn}, ${id}) > (${changedAfter}, ${idAfter}) and ${changedIn} < ${horizon} and ${since} < ${horizon}`,
  })
}

/** The first rows of a source after the position, all at the transaction `at`, which is not before the position's. */
const rowsAt = (p: P, at: SQLWrapper, source: Source): SQL => {
  const { id, changedIn, condition } = source
  const ifReached = (passed: SQLWrapper, none: SQL): SQL =>
    sql`case when ${at} = ${p.at} then ${passed} else ${none} end`
  return firstRows(p, sql`${at}`, {
    ...source,
    condition: sql`${condition} and (${changedIn}, ${id}) > (${ifReached(p.changed_in, never)}, ${ifReached(p.id, firstId)})`,
  })
}

/** Whether a task passes the filter of the feed. */
type Matches = (item: typeof tasks) => SQL

const matchesAny: Matches = () => sql`true`

const matchesFilter =
  (p: Placeholders<typeof filterParameters>): Matches =>
  (item) => {
    const { project_id, assignee_id } = item
    return sql`(
      (${p.any_project} or ${project_id} = any(${p.projects}) or (${p.no_project} and ${project_id} is null))
      and (${p.any_assignee} or coalesce(${assignee_id} = any(${p.assignees}), false))) is true`
  }

/** What every part of a feed's statement depends on. */
interface Feed {
  readonly role: Role
  readonly p: P
  /** `p` with a constant `is_admin`. */
  readonly caller: CallerPlaceholders
  readonly matches: Matches
  /** The first transaction whose tombstones and changes of membership the client has not read yet. A new client needs none. */
  readonly tombstonesFrom: SQL
}

/**
 * The tasks that the caller sees, each at its last change, or at the transaction of joining its project. They are found by access
 * branch, so a task that is visible by two relations can have two positions in the feed, and is reported at each. A task that does
 * not pass the filter is left out if it has not changed since `tombstonesFrom`: it did not pass before either.
 */
const seenTasks = ({ role, p, caller, matches, tombstonesFrom }: Feed): SQL => {
  /** A membership that the client has already read does not move rows to its transaction. */
  const ifUnread = (transaction: SQL): SQL =>
    sql`case when ${transaction} >= ${tombstonesFrom} then ${transaction} else ${never} end`
  return unionOfBranches(
    changeBranches(role, caller, tombstonesFrom),
    ({ beganIn }) =>
      (condition, { limit } = {}) =>
        rowsAfter(
          p,
          {
            from: sql`tasks item`,
            id: item.id,
            changedIn: item.changed_in,
            condition: sql`${condition} and (${matches(item)} or ${item.changed_in} >= ${tombstonesFrom})`,
            ...(beganIn !== undefined && { prefix: sql`${item.deleted_at},` }),
            columns: sql`, ${item.project_id}, ${matches(item)} as is_seen`,
            ...(limit !== undefined && { limit }),
          },
          beganIn === undefined ? never : ifUnread(beganIn),
        ),
    { order: sql`at, changed_in, id`, count: sql`${p.limit} + 1` },
  )
}

/** Tombstones that meet `condition`, of tasks that the caller does not see by another relation. */
const unreadTombstones = ({ caller, tombstonesFrom }: Feed, condition: SQL): Source => ({
  from: sql`task_tombstones tombstone`,
  id: tombstone.task_id,
  changedIn: tombstone.changed_in,
  condition: sql`${condition} and ${tombstone.changed_in} >= ${tombstonesFrom} and not ${seesTask(caller, tombstone.task_id)}`,
  columns: sql`, false as is_seen`,
})

/** Whether a tombstone is that of a task for the members of a project. */
const isOfProject = (projectId: SQLWrapper): SQL =>
  sql`${tombstone.project_id} = ${projectId} and ${tombstone.user_id} is null`

/**
 * The tasks that the caller no longer sees because the tasks changed, each at that change: they got another owner, assignee or
 * project, or were moved to the trash. A member reads their own tombstones, and those of each of their projects since joining it;
 * an administrator reads those of all administrators.
 */
const lostTasks = (feed: Feed): SQL => {
  const lost = (condition: SQL): SQL => rowsAfter(feed.p, unreadTombstones(feed, condition))
  if (feed.role === 'admin')
    return lost(sql`${tombstone.project_id} is null and ${tombstone.user_id} is null`)
  const { caller } = feed.p
  const lostByMembers = lost(
    sql`${isOfProject(membership.project_id)} and ${tombstone.changed_in} >= ${membership.joined_in}`,
  )
  return sql`
          (${lost(sql`${tombstone.user_id} = ${caller}`)})
          union all ${rowsOfMemberships(caller, sql`true`, () => lostByMembers, null)}`
}

/**
 * The tasks that the caller may have seen in a project until they left it, at the transaction of leaving: those still in the project,
 * unless the caller has joined again, and the tombstones of those that have left it. A task placed in the project later is not
 * among them. For administrators, a project is left when it moves to the trash. Tasks that the caller sees by another relation are
 * reported in their current state, since they may have been hidden while the project was in the trash.
 *
 * All are at the transaction of leaving, also those that have changed since, and beyond the horizon: the next page begins after it.
 */
const tasksOfLeftProjects = (feed: Feed): SQL => {
  const { role, p, caller, matches, tombstonesFrom } = feed
  const isBack =
    role === 'admin' ? isProjectLive(ended.project_id) : isMember(ended.project_id, p.caller, 'viewer')
  const stillThere: Source = {
    from: sql`tasks item`,
    id: item.id,
    changedIn: item.changed_in,
    condition: sql`${item.project_id} = ${ended.project_id} and ${item.deleted_at} is null
            and coalesce(${item.placed_at}, ${item.created_at}) <= ${ended.created_at} and not ${isBack}`,
    prefix: sql`${item.deleted_at},`,
    columns: sql`, ${seesTask(caller, item.id)} and ${matches(item)} as is_seen`,
  }
  const gone = unreadTombstones(
    feed,
    sql`${isOfProject(ended.project_id)} and ${tombstone.placed_at} <= ${ended.created_at}`,
  )
  return sql`
      select reached.* from membership_tombstones ended cross join lateral (
        (${rowsAt(p, ended.left_in, stillThere)}) union all (${rowsAt(p, ended.left_in, gone)})
      ) reached
      where ${role === 'admin' ? sql`${ended.user_id} is null` : sql`${ended.user_id} = ${p.caller}`}
        and ${ended.left_in} >= greatest(${tombstonesFrom}, ${p.at}) and ${ended.left_in} < ${horizon}`
}

/**
 * The statement of a feed: a page of the rows of its three parts, in the order of the feed. A task at several positions of the page is
 * reported once, at the last. A task that does not pass the filter is reported as deleted if it has changed since the client started,
 * because it may have passed before. Whether a task passes depends on the task alone.
 */
const selectChanges = (role: Role, p: P, matches: Matches): SQL => {
  const feed: Feed = {
    role,
    p,
    caller: { ...p, is_admin: sql.raw(String(role === 'admin')) },
    matches,
    tombstonesFrom: sql`coalesce(${p.tombstones_from}, ${horizon})`,
  }
  const json = sql`(select ${taskJson(task, p)} from tasks task where ${task.id} = numbered.id and is_seen)`
  return sql`
      with recursive picked as (
        select distinct on (at, changed_in, id) at, changed_in, id, is_seen
        from (
          select at, changed_in, id, is_seen from (${seenTasks(feed)}) seen
          union all select * from (${lostTasks(feed)}) lost union all ${tasksOfLeftProjects(feed)}) found
        order by at, changed_in, id limit ${p.limit} + 1
      ), numbered as (
        select picked.*, row_number() over (order by at, changed_in, id) as ordinal from picked
      ), ${renderedRows(json, p.limit)}, page as (
        select id, at, changed_in, is_seen, ordinal, json, ordinal = max(ordinal) over (partition by id) as is_last
        from numbered join rendered using (ordinal)
      )
      select
        coalesce(${p.epoch} <> coalesce(epoch, 1) or ${p.tombstones_from} <= coalesce(pruned_through, '0')
          or ${p.at} > ${horizon}, false) as is_expired,
        (select '[' || coalesce(string_agg(json, ',' order by ordinal), '') || ']' from page where is_last and is_seen) as changed,
        (select '[' || coalesce(string_agg(to_json(id)::text, ',' order by ordinal), '') || ']'
          from page where is_last and not is_seen) as deleted,
        (select count(*) from numbered) > (select count(*) from page) as has_more,
        (select at::text from page order by ordinal desc limit 1) as last_at,
        (select changed_in::text from page order by ordinal desc limit 1) as last_changed_in,
        (select id::text from page order by ordinal desc limit 1) as last_id,
        coalesce(epoch, 1) as epoch, ${horizon}::text as horizon, ${feed.tombstonesFrom}::text as tombstones_from
      from (values (true)) always left join change_history history on ${history.singleton}`
}

const selectFor = (role: Role) => ({
  everything: query(`task_changes.select_for_${role}`, parameters, columns, (p) =>
    selectChanges(role, p, matchesAny),
  ),
  filtered: query(
    `task_changes.select_filtered_for_${role}`,
    { ...parameters, ...filterParameters },
    columns,
    (p) => selectChanges(role, p, matchesFilter(p)),
  ),
})

const select = { member: selectFor('member'), admin: selectFor('admin') }

/**
 * The changes after `position`, or from the beginning if it is null. Returns null if the position has expired: tombstones
 * after it have been removed, or it belongs to another history.
 *
 * @throws ListTooExpensive
 */
export const selectTaskChanges = async (
  ctx: StatementContext<Principal>,
  page: ChangeFilter & {
    readonly all: boolean
    readonly position: ChangePosition | null
    readonly limit: number
  },
): Promise<TaskChanges | null> => {
  const { position, limit, projects, assignees } = page
  const { role } = listReader(ctx.principal, page)
  const values = {
    epoch: position?.epoch ?? null,
    at: position?.at ?? '0',
    changed_in: position?.changedIn ?? '0',
    id: position?.id ?? nilId,
    tombstones_from: position?.tombstonesFrom ?? null,
    limit,
  }
  const { everything, filtered } = select[role]
  const rows =
    projects === null && assignees === null
      ? everything(ctx, values)
      : filtered(ctx, {
          ...values,
          any_project: projects === null,
          no_project: projects?.includes('none') ?? false,
          projects: projects?.filter((id) => id !== 'none') ?? [],
          any_assignee: assignees === null,
          assignees: assignees ?? [],
        })
  const row = expectRow(await orTooExpensive(rows))
  if (row.is_expired) return null
  const { changed, deleted, epoch, last_at, last_changed_in, last_id } = row
  // On the last page the client is up to date with the horizon. The nil id sorts before every task's id.
  const next =
    row.has_more && last_at !== null && last_changed_in !== null && last_id !== null
      ? { epoch, at: last_at, changedIn: last_changed_in, id: last_id, tombstonesFrom: row.tombstones_from }
      : { epoch, at: row.horizon, changedIn: '0', id: nilId, tombstonesFrom: row.horizon }
  return { changed, deleted, next, hasMore: row.has_more }
}

const batch = 2_000

/** A table of tombstones: the columns with their transaction and their time. */
interface TombstoneTable {
  readonly table: PgTable
  readonly endedIn: SQLWrapper
  readonly createdAt: SQLWrapper
}

/** A statement that removes old rows of a table, and records the last of their transactions. */
const pruning = (name: StatementName, { table, endedIn, createdAt }: TombstoneTable) =>
  statement(
    name,
    { days: 'int', limit: 'int' },
    { pruned: 'int8' },
    (p) => sql`
      with pruned as (
        delete from ${table} where ctid = any(array(
          select ctid from ${table}
          where ${createdAt} < ${retentionTime} - make_interval(days => ${p.days}) limit ${p.limit}))
        returning ${endedIn} as ended_in
      ), noted as (
        insert into change_history as history (pruned_through)
        select ended_in from pruned order by ended_in desc limit 1
        on conflict (singleton) do update set pruned_through = greatest(${history.pruned_through}, excluded.pruned_through)
      )
      select count(*) as pruned from pruned`,
  )

const prunings = [
  pruning('task_tombstones.delete_old', {
    table: taskTombstones,
    endedIn: taskTombstones.changed_in,
    createdAt: taskTombstones.created_at,
  }),
  pruning('membership_tombstones.delete_old', {
    table: membershipTombstones,
    endedIn: membershipTombstones.left_in,
    createdAt: membershipTombstones.created_at,
  }),
]

/** Removes tombstones older than `days`. A client that has not read the feed since then must start over. */
export const removeOldTombstones = async (db: Database, days: number, stop: AbortSignal): Promise<void> => {
  for (const prune of prunings)
    await untilNone(async () => (await prune(db, { days, limit: batch }))[0]?.pruned ?? 0, stop)
}

/** Random rather than a counter: a dump can be restored twice, and each copy has its own history. */
const newEpoch = sql.raw('floor(random() * 2147483647)::int')

const recordOrigin = statement(
  'change_history.record_origin',
  {},
  { database: 'text', transaction: 'text' },
  () => sql`
    with other as (
      select from change_history where origin <> ${databaseId}
    ), forgotten as (
      delete from task_tombstones where exists (select from other)
    ), forgotten_memberships as (
      delete from membership_tombstones where exists (select from other)
    )
    insert into change_history as history (origin) values (${databaseId})
    on conflict (singleton) do update set
      origin = excluded.origin,
      epoch = case when exists (select from other) then ${newEpoch} else ${history.epoch} end,
      pruned_through = case when exists (select from other) then '0' else ${history.pruned_through} end
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
    ), forgotten_memberships as (
      delete from membership_tombstones where exists (select from ahead)
    ), restamped as (
      update tasks set changed_in = '0' from ahead where ${tasks.id} = ahead.id returning ${tasks.id}
    )
    select count(*) as restamped from restamped`,
)

/** Resets transactions of memberships and projects that are in the future: in the new history, they existed from the start. */
const restampProjects = statement(
  'projects.restamp',
  {},
  {},
  () => sql`
    with restamped as (
      update memberships set joined_in = '0' where ${memberships.joined_in} >= pg_snapshot_xmax(pg_current_snapshot())
    )
    update projects set visible_in = '0' where ${projects.visible_in} >= pg_snapshot_xmax(pg_current_snapshot())`,
)

/**
 * Starts a new history if the current one originates in another database: a dump was restored, or rows were copied. Their
 * transaction ids may be ahead of this database's.
 */
export const restartHistoryIfCopied = async (db: Database): Promise<Identity> => {
  const [origin] = await recordOrigin(db, {})
  await restampProjects(db, {})
  await restampEvents(db)
  for (let restamped = batch; restamped === batch;) {
    const [row] = await restampBatch(db, { limit: batch })
    restamped = row?.restamped ?? 0
  }
  return parseIdentity(origin)
}

/** Starts a new history unconditionally, since a file-level copy of a database cannot detect that it is a copy. */
export const restartHistory = compile(
  'change_history.restart',
  sql`
  with forgotten as (delete from task_tombstones), forgotten_memberships as (delete from membership_tombstones)
  insert into change_history (epoch, origin) values (${newEpoch}, ${databaseId})
  on conflict (singleton) do update set epoch = excluded.epoch, origin = excluded.origin, pruned_through = '0'`,
).text
