import type { MemberExpansion } from '../domain/expansions.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsTask, isSeenBy, seesTask } from './access/permissions.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { OpContext, TransactionContext } from './engine/context.ts'
import { checkedOutcome, outcomeOfCreation, readOutcome } from './engine/outcome.ts'
import { parameter } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  pageIfVisible,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { followerJson } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'
import { taskFollowers } from './schema/tables.ts'
import { isTaskVisible } from './task-pages.ts'

/** Followers of tasks. Triggers make owners and assignees followers (routines.sql). */

const task = sql.raw('task')
const follower = columnsOf<'task_followers'>(sql.raw('follower'))

const set = query(
  'task_followers.set',
  { task_id: 'uuid', has_stopped: 'bool' },
  { outcome: 'text' },
  (p) => {
    const { columns, values } = insertion<'task_followers'>({
      task_id: sql`id`,
      user_id: p.caller,
      has_stopped: p.has_stopped,
    })
    const begunAnew = assignments<'task_followers'>({
      has_stopped: sql`excluded.has_stopped`,
      created_at: sql`excluded.created_at`,
    })
    const isFollower = sql`exists (
    select from task_followers follower where ${follower.task_id} = ${p.task_id} and ${follower.user_id} = ${p.caller}
      and not ${follower.has_stopped})`
    return sql`
    with task as materialized (
      select id from tasks task where id = ${p.task_id} and ${allowsTask('task.see', p, task)} for key share
    ), checked as (
      select id, ${checkedOutcome(p, { allowed: sql`true`, etag: null, exists: isFollower })} as outcome from task
    ), changed as (
      insert into task_followers as follower (${columns}) select ${values} from checked where outcome = 'done'
      on conflict (task_id, user_id) do update set ${begunAnew} where ${follower.has_stopped} <> excluded.has_stopped
      returning 1
    )
    select ${outcomeOfCreation(p, sql`exists (select from changed)`)} as outcome from checked`
  },
)

/** Makes the caller follow or unfollow a task that they can see. Triggers do not make a user who unfollowed a task follow it again. */
export const setFollower = async (
  ctx: OpContext<Principal>,
  { taskId, hasStopped }: { readonly taskId: string; readonly hasStopped: boolean },
): Promise<Outcome<unknown>> => {
  const [row] = await set(ctx, { task_id: taskId, has_stopped: hasStopped })
  return readOutcome(row)
}

const follow = builtStatement('task_followers.follow', { task_id: 'uuid', user_id: 'uuid' }, (db, p) =>
  db.insert(taskFollowers).values({ task_id: p.task_id, user_id: p.user_id }).onConflictDoNothing(),
)

/** Makes the caller follow a task on which they act, unless they have unfollowed it. */
export const followTask = async (
  { db, principal }: TransactionContext<Principal>,
  taskId: string,
): Promise<void> => {
  await follow(db, { task_id: taskId, user_id: principal.userId })
}

/** The expansions of a list of followers. */
export interface FollowerFilter {
  readonly expand?: readonly MemberExpansion[]
}

/** A page of the followers of a task who can see it, if the caller can. */
export const selectTaskFollowers = async (
  ctx: OpContext<Principal>,
  taskId: string,
  { expand = [] }: FollowerFilter,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const person = sql.raw('person')
  const followers = await selectPage(
    ctx.db,
    {
      name: ['task_followers', ...expand].join('_'),
      from: sql`(
        select ${follower.user_id} as id, ${follower.user_id}, ${follower.created_at}, ${follower.task_id}
        from task_followers follower join users person on person.id = ${follower.user_id}
          join tasks task on task.id = ${follower.task_id}
        where ${follower.task_id} = ${parameter('task_id', 'uuid')} and not ${follower.has_stopped}
          and ${columnsOf<'users'>(sql`person`).deleted_at} is null and ${isSeenBy(person, task)}) item`,
      branches: (caller) => onlyBranch(seesTask(caller, sql`item.task_id`)),
      values: { task_id: taskId },
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row, caller) => followerJson(row, expand, caller),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(followers, () => isTaskVisible(ctx, taskId))
}
