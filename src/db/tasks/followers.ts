import type { MemberExpansion } from '../../domain/shared/expansions.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { isSeenBy, seesTask } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter } from '../statements/parameters.ts'
import { statement } from '../statements/statement.ts'
import { newest, selectPageOf } from '../lists/list.ts'
import { followerJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, sql } from '../schema/drizzle.ts'
import { taskFollowers, tasks, users } from '../schema/tables.ts'
import type { TaskFacts } from './facts.ts'
import { isTaskVisible } from './visibility.ts'

/** Followers of tasks: who creates, owns, is assigned to or comments on one, unless they have unfollowed it. */

const follower = aliasedTable(taskFollowers, 'follower')
const person = aliasedTable(users, 'person')
const task = aliasedTable(tasks, 'task')
const item = aliasedTable(taskFollowers, 'item')

const rowParameters = { task_id: 'uuid', user_id: 'uuid' } as const

const selectState = builtStatement('task_followers.select_state', rowParameters, (db, p) =>
  db
    .select({ has_stopped: taskFollowers.has_stopped })
    .from(taskFollowers)
    .where(and(eq(taskFollowers.task_id, p.task_id), eq(taskFollowers.user_id, p.user_id))),
)

/** Whether the caller follows a task. */
export const isFollower = async (
  { db, principal }: TransactionContext<Principal>,
  taskId: string,
): Promise<boolean> => {
  const [row] = await selectState(db, { task_id: taskId, user_id: principal.userId })
  return row !== undefined && !row.has_stopped
}

const set = builtStatement('task_followers.set', { ...rowParameters, has_stopped: 'bool' }, (db, p) =>
  db
    .insert(taskFollowers)
    .values({ task_id: p.task_id, user_id: p.user_id, has_stopped: p.has_stopped })
    .onConflictDoUpdate({
      target: [taskFollowers.task_id, taskFollowers.user_id],
      set: { has_stopped: sql`excluded.has_stopped`, created_at: sql`excluded.created_at` },
      setWhere: sql`${taskFollowers.has_stopped} <> excluded.has_stopped`,
    }),
)

/** Makes the caller follow or unfollow a locked task. A user who unfollowed it does not become a follower by acting on it. */
export const setFollower = async (
  { db, principal }: TransactionContext<Principal>,
  task: Authorized<'task.see', TaskFacts>,
  hasStopped: boolean,
): Promise<void> => {
  await set(db, { task_id: task.id, user_id: principal.userId, has_stopped: hasStopped })
}

const follow = builtStatement('task_followers.follow', rowParameters, (db, p) =>
  db.insert(taskFollowers).values({ task_id: p.task_id, user_id: p.user_id }).onConflictDoNothing(),
)

/** Makes the caller follow a task on which they act, unless they have unfollowed it. */
export const followTask = async (
  { db, principal }: TransactionContext<Principal>,
  taskId: string,
): Promise<void> => {
  await follow(db, { task_id: taskId, user_id: principal.userId })
}

const followAll = statement(
  'task_followers.follow_all',
  { task_ids: 'uuid[]', user_ids: 'uuid[]' },
  {},
  (p) => sql`
    insert into task_followers (task_id, user_id)
    select * from unnest(${p.task_ids}, ${p.user_ids}) as follower (task_id, user_id) order by task_id, user_id
    on conflict do nothing`,
)

/** Makes users follow tasks, except those who have unfollowed them. */
export const followTasks = async (
  { db }: TransactionContext,
  followers: readonly { readonly taskId: string; readonly userId: string }[],
): Promise<void> => {
  const task_ids = followers.map(({ taskId }) => taskId)
  await followAll(db, { task_ids, user_ids: followers.map(({ userId }) => userId) })
}

const copyFollowers = statement(
  'task_followers.copy',
  { from_ids: 'uuid[]', to_ids: 'uuid[]' },
  {},
  (p) => sql`
    insert into task_followers (task_id, user_id, has_stopped)
    select copy.to_id, user_id, has_stopped from unnest(${p.from_ids}, ${p.to_ids}) as copy (from_id, to_id)
      join task_followers follower on ${follower.task_id} = copy.from_id
    order by copy.to_id, user_id`,
)

/** Makes the followers of tasks follow the new ones that repeat them, and leaves out those who have unfollowed. */
export const followCopies = async (
  { db }: TransactionContext,
  copies: readonly { readonly from: string; readonly to: string }[],
): Promise<void> => {
  const from_ids = copies.map(({ from }) => from)
  await copyFollowers(db, { from_ids, to_ids: copies.map(({ to }) => to) })
}

/** The expansions of a list of followers. */
export interface FollowerFilter {
  readonly expand?: readonly MemberExpansion[]
}

/** A page of the followers of a task who can see it, if the caller can. */
export const selectTaskFollowers = (
  ctx: StatementContext<Principal>,
  taskId: string,
  { expand = [] }: FollowerFilter,
  page: PageRequest,
): Promise<Page | null> =>
  selectPageOf(
    ctx,
    {
      name: ['task_followers', ...expand].join('_'),
      table: taskFollowers,
      from: sql`(
        select ${follower.user_id} as id, ${follower.user_id}, ${follower.created_at}, ${follower.task_id}
        from task_followers follower join users person on ${person.id} = ${follower.user_id}
          join tasks task on ${task.id} = ${follower.task_id}
        where ${follower.task_id} = ${parameter('task_id', 'uuid')} and not ${follower.has_stopped}
          and ${person.deleted_at} is null and ${isSeenBy(person, task)}) item`,
      branches: (caller) => onlyBranch(seesTask(caller, item.task_id)),
      values: { task_id: taskId },
      ...newest,
      json: (row, caller) => followerJson(row, expand, caller),
    },
    page,
    () => isTaskVisible(ctx, taskId),
  )
