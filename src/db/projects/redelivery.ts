import { nilId } from '../../domain/shared/nil-id.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { pipeline, pipelineEach } from '../engine/pipeline.ts'
import { statement, type StatementName } from '../statements/statement.ts'
import type { Transaction } from '../engine/transaction.ts'
import { and, eq, type SQL, sql } from '../schema/drizzle.ts'
import { projects } from '../schema/tables.ts'

/**
 * A project that moves to the trash, or out of it, changes what others than its members see as well: assignees who are no members see
 * their tasks no more, or again. The change feed delivers these tasks by rows of their own, for which there are batches: a project can have
 * very many of them. `is_redelivering` says that some are left.
 */

/** Tasks per statement; each takes up to a third of a millisecond. */
const batch = sql.raw('100')

/** Whether a project has more tasks than the first batch. */
export const hasManyTasks = sql<boolean>`(
  select count(*) > ${batch} from (
    select from tasks where project_id = projects.id and deleted_at is null limit ${batch} + 1
  ) few)`

const parameters = { id: 'uuid', changed_in: 'xid8', after: 'uuid' } as const
type P = Placeholders<typeof parameters>

/** Where a batch ended: the tasks of a project in the order of their last change. */
interface Position {
  readonly changed_in: string
  readonly after: string
}

const start: Position = { changed_in: '0', after: nilId }

interface Delivery {
  /** Whether the row `task` of a project is, by the present state of the project. */
  readonly isAffected: (projectId: SQL) => SQL
  readonly areOutsiders: SQL
  readonly deliver: SQL
}

/** A statement that makes the feed deliver a batch of tasks: those of `page` that `outsiders` are assigned to. */
const deliveryOf = (name: StatementName, { isAffected, areOutsiders, deliver }: Delivery) =>
  statement(
    name,
    parameters,
    { changed_in: 'text', after: 'text' },
    (p: P) => sql`
      with page as materialized (
        select task.id, task.project_id, task.assignee_id, task.changed_in, coalesce(task.placed_at, task.created_at) as placed_at
        from tasks task
        where task.project_id = ${p.id} and task.deleted_at is null and (task.changed_in, task.id) > (${p.changed_in}, ${p.after})
          and ${isAffected(p.id)}
        -- All columns of tasks_project_changes, which is then read in its order.
        order by task.project_id, task.deleted_at, task.changed_in, task.id limit ${batch}
      ), outsiders as materialized (
        select page.* from page where assignee_id is not null and ${areOutsiders}
      ), ${deliver}
      select changed_in::text, id::text as after from page order by page.changed_in desc, page.id desc limit 1`,
  )

const deliverHidden = deliveryOf('task_tombstones.insert_hidden', {
  isAffected: (projectId) => sql`(select deleted_at is not null from projects where id = ${projectId})`,
  // Their memberships ended with the visibility of the project, if they had one.
  areOutsiders: sql`not exists (
    select from membership_tombstones hidden join membership_tombstones member using (project_id)
    where project_id = page.project_id and hidden.user_id is null and member.user_id = page.assignee_id
      and member.left_in >= hidden.left_in)`,
  deliver: sql`
    delivered as (
      insert into task_tombstones (task_id, project_id, user_id, changed_in, placed_at)
      select id, project_id, assignee_id, pg_current_xact_id(), placed_at from outsiders order by id
      on conflict on constraint task_tombstones_once
        do update set changed_in = excluded.changed_in, created_at = excluded.created_at
    )`,
})

// Clients see no change of these tasks.
const deliverShown = deliveryOf('tasks.restamp_shown', {
  isAffected: (projectId) =>
    sql`task.changed_in < (select visible_in from projects where id = ${projectId} and deleted_at is null)`,
  areOutsiders: sql`not exists (
    select from memberships where memberships.project_id = page.project_id and memberships.user_id = page.assignee_id)`,
  deliver: sql`
    locked as materialized (
      select id from tasks where id in (select id from outsiders) order by id for no key update
    ), delivered as (
      update tasks set changed_in = pg_current_xact_id() where id in (select id from locked)
    )`,
})

const selectUnfinished = builtStatement('projects.select_redelivering', {}, (db) =>
  db
    .select({ id: projects.id, deleted_at: projects.deleted_at, visible_in: projects.visible_in })
    .from(projects)
    .where(eq(projects.is_redelivering, true)),
)

// Unless it was moved again meanwhile.
const finish = builtStatement(
  'projects.finish_redelivery',
  { id: 'uuid', deleted_at: 'instant?', visible_in: 'xid8' },
  (db, p) =>
    db
      .update(projects)
      .set({ is_redelivering: false })
      .where(
        and(
          eq(projects.id, p.id),
          sql`${projects.deleted_at} is not distinct from ${p.deleted_at}`,
          sql`${projects.visible_in} = ${p.visible_in}`,
        ),
      ),
)

/** Delivers the tasks that are left. It begins anew if it was stopped, which delivers some twice. */
export const redeliverTasks = async (db: Database, stop: AbortSignal): Promise<void> => {
  for (const project of await selectUnfinished(db, {})) {
    const deliver = project.deleted_at === null ? deliverShown : deliverHidden
    for (let next: Position | undefined = start; next !== undefined;) {
      if (stop.aborted) return
      ;[next] = await deliver(db, { id: project.id, ...next })
    }
    await finish(db, project)
  }
}

const recordHidden = statement(
  'membership_tombstones.insert_hidden',
  { ids: 'uuid[]' },
  {},
  (p) => sql`
    insert into membership_tombstones (project_id, user_id, left_in, created_at)
    select id, null, pg_current_xact_id(), clock_timestamp() from unnest(${p.ids}) hidden (id) order by id
    on conflict on constraint membership_tombstones_once do update set left_in = excluded.left_in, created_at = excluded.created_at`,
)

// This is one event of the project, and none of its members.
const computeMembers = statement(
  'memberships.compute_all',
  { ids: 'uuid[]' },
  {},
  (p) => sql`select count(*)::text from compute_memberships(${p.ids}, null)`,
)

/** Ends what is seen of locked projects that the transaction has moved to the trash; see `hasManyTasks`. */
export const endVisibility = async (db: Transaction, ids: readonly string[]): Promise<void> => {
  await pipeline(db, {
    tombstones: () => recordHidden(db, { ids }),
    members: () => computeMembers(db, { ids }),
    tasks: () => pipelineEach(db, ids, (id) => deliverHidden(db, { id, ...start })),
  })
}

/** Begins what is seen of locked projects that the transaction has restored, with `visible_in`; see `hasManyTasks`. */
export const beginVisibility = async (db: Transaction, ids: readonly string[]): Promise<void> => {
  await pipeline(db, {
    members: () => computeMembers(db, { ids }),
    tasks: () => pipelineEach(db, ids, (id) => deliverShown(db, { id, ...start })),
  })
}
