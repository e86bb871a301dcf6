import type { TaskFields } from '../../domain/tasks/fields.ts'
import { recurringRoot, subtasksOf } from '../../domain/tasks/trees.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import { allowsTag } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { anyOf, ofAnyLength } from '../statements/parameters.ts'
import type { TransactionContext } from '../statements/context.ts'
import { SerializationFailure } from '../engine/errors.ts'
import { pipeline } from '../engine/pipeline.ts'
import { query, statement } from '../statements/statement.ts'
import { aliasedTable, and, eq, isNull, type SQL, sql } from '../schema/drizzle.ts'
import { memberships, projects, reminders, sections, tags, tasks, taskTags, users } from '../schema/tables.ts'
import { revisionOf } from '../shared/touch.ts'
import { idsOfProjects, lockProjects, lockTaskRows } from './facts.ts'
import { seriesColumns } from './single.ts'

/**
 * What writes of tasks depend on, read under locks, in the order of `lock-order.ts`. A statement that locks returns the present state of the
 * rows that it locked; everything else is read by later statements, since its snapshot is from before it waited.
 */

/** What a request names. */
export interface TaskReferences {
  /** Tasks that it writes, or puts others next to. */
  readonly tasks?: readonly string[]
  /** New parents. */
  readonly parents?: readonly string[]
  /** Those of `tasks` that may leave their place with their subtasks. */
  readonly roots?: readonly string[]
  /**
   * Those of `tasks` that the request may close or reopen. If they recur, their trees are written too, and those of their next
   * occurrences as long as these are as they were created.
   */
  readonly closing?: readonly string[]
  /** Whether a task of `roots` may recur from now on: it can be closed by the same request. */
  readonly startsSeries?: boolean
  /** Whether the parents of `tasks` count them anew. */
  readonly recounts?: boolean
  /** A task in the trash, with the subtasks that were deleted with it. */
  readonly trashed?: string
  /** Those of `tasks` that may leave their project for the personal tasks of their owner, who must not be deleted meanwhile. */
  readonly toPersonal?: readonly string[]
  /** Those of `tasks` whose section others may be put into. */
  readonly anchors?: readonly string[]
  readonly users?: readonly string[]
  readonly projects?: readonly string[]
  readonly sections?: readonly string[]
  readonly tags?: readonly string[]
  /** Whether descriptions are read: the request writes them, or expects some. */
  readonly readsDescriptions?: boolean
  /** Whether tags of `tasks` are read, likewise. */
  readonly readsTags?: boolean
}

/** A locked task. `description` is empty unless descriptions are read. */
export interface LockedTask extends TaskFields {
  readonly id: string
  readonly version: number
  readonly side_changes: number
  /** When it was moved to the trash. */
  readonly deleted_at: string | null
  readonly subtask_count: number
  /** Whether anybody has a reminder about it. New ones wait for the lock. */
  readonly has_reminders: boolean
}

interface LockedProject {
  readonly id: string
  readonly archived_at: string | null
  readonly deleted_at: string | null
  /** The caller's; null for none. */
  readonly role: ProjectRole | null
}

interface LockedUser {
  readonly time_zone: string
  readonly deleted_at: string | null
}

/** A tag that the caller can see. */
interface LockedTag {
  readonly id: string
}

/** What was locked and read, by id. */
export interface LockedReferences {
  readonly tasks: ReadonlyMap<string, LockedTask>
  readonly projects: ReadonlyMap<string, LockedProject>
  /** Those that were named, and the owners of the tasks. */
  readonly users: ReadonlyMap<string, LockedUser>
  readonly sections: ReadonlyMap<string, { readonly project_id: string }>
  readonly tags: ReadonlyMap<string, LockedTag>
  /** The ids of the tags of each task, if tags are written. */
  readonly links: ReadonlyMap<string, readonly string[]>
  /**
   * Those of the tasks that have a relation, or a reminder that somebody made or changed, if an occurrence may be taken back: one that its
   * repeated task does not have. Firing, and another time zone, change a reminder as well.
   */
  readonly related: ReadonlySet<string>
  /** The numbers of tasks in the trees of recurring tasks that new parents are in. */
  readonly recurringTrees: ReadonlyMap<string, number>
}

// Who follows a task, or is reminded of it, follows the one that repeats it, or is reminded of that.
const usersOfTasks = (ids: SQL): SQL => sql`
  select user_id from task_followers where task_id in (${ids})
  union select user_id from reminders where task_id in (${ids})`

/** Those named, and whom the next occurrences of tasks will refer to. */
const lockUsers = builtStatement(
  'task_locks.lock_users',
  { ids: 'uuid[]', repeated: 'uuid[]', starts_series: 'bool' },
  (db, p) =>
    db
      .select({ id: users.id, time_zone: users.time_zone, deleted_at: users.deleted_at })
      .from(users)
      .where(
        eq(
          users.id,
          sql`any(array(
            with recursive tree as (
              select id, owner_id, assignee_id from tasks
              where id = ${anyOf(p.repeated)} and (series_id is not null or ${p.starts_series})
              union all select task.id, task.owner_id, task.assignee_id from tree cross join lateral (
                select id, owner_id, assignee_id from tasks where parent_id = tree.id and deleted_at is null offset 0
              ) task
            )
            select unnest(${ofAnyLength(p.ids)}) union select owner_id from tree union select assignee_id from tree
            union ${usersOfTasks(sql`select id from tree`)}))`,
        ),
      )
      .orderBy(users.id)
      .for('key share'),
)

const selectUsersOfTasks = statement(
  'task_locks.select_users_of_tasks',
  { ids: 'uuid[]' },
  { id: 'text' },
  (p) => sql`select user_id::text as id from (${usersOfTasks(sql`select unnest(${p.ids})`)}) person`,
)

const selectProjects = builtStatement(
  'task_locks.select_projects',
  { project_ids: 'uuid[]', task_ids: 'uuid[]', caller: 'uuid' },
  (db, p) =>
    db
      .select({
        id: projects.id,
        archived_at: projects.archived_at,
        deleted_at: projects.deleted_at,
        role: memberships.role,
      })
      .from(projects)
      .leftJoin(memberships, and(eq(memberships.project_id, projects.id), eq(memberships.user_id, p.caller)))
      .where(eq(projects.id, idsOfProjects(p))),
)

const task = aliasedTable(tasks, 'task')
const next = aliasedTable(tasks, 'next')
/** The project or the owner whose list a task is in. */
const placeOf = ({ project_id, owner_id }: typeof tasks) => sql`coalesce(${project_id}, ${owner_id})`

const lockTrees = statement(
  'task_locks.lock_trees',
  { targets: 'uuid[]', parents: 'uuid[]', roots: 'uuid[]', closing: 'uuid[]', trashed: 'uuid?' },
  { id: 'text', recurs: 'bool', next_task_id: 'text?' },
  (p) => sql`
    with recurring as materialized (
      select task.id, task.next_task_id, next.id as withdrawable
      from tasks task left join tasks next
        on next.id = task.next_task_id and ${revisionOf(next)} = 1 and ${placeOf(next)} = ${placeOf(task)}
      where task.id = ${anyOf(p.closing)} and task.series_id is not null
    ), roots as materialized (
      select array(select id from recurring union select withdrawable from recurring where withdrawable is not null) as ids
    )
    select tree.id::text, recurring.id is not null as recurs, recurring.next_task_id::text
    from roots
      cross join unnest(lock_trees(${p.targets} || roots.ids, ${p.parents}, ${p.roots} || roots.ids, ${p.trashed})) tree (id)
      left join recurring on recurring.id = tree.id`,
)

const lockSections = builtStatement(
  'task_locks.lock_sections',
  { ids: 'uuid[]', task_ids: 'uuid[]' },
  (db, p) =>
    db
      .select({ id: sections.id, project_id: sections.project_id })
      .from(sections)
      .where(
        eq(
          sections.id,
          sql`any(array(select unnest(${ofAnyLength(p.ids)}) union select section_id from tasks where id = ${anyOf(p.task_ids)}))`,
        ),
      )
      .orderBy(sections.id)
      .for('key share'),
)

const lockTags = statement(
  'task_locks.lock_tags',
  { ids: 'uuid[]' },
  { id: 'text' },
  (p) => sql`select id::text from tags where id = ${anyOf(p.ids)} order by id for key share`,
)

const selectTags = query(
  'task_locks.select_tags',
  { ids: 'uuid[]' },
  { id: 'text' },
  (p) =>
    sql`select id::text from tags tag where id = ${anyOf(p.ids)} and ${allowsTag('tag.see', p, aliasedTable(tags, 'tag'))}`,
)

// A deleted tag is taken from its tasks by a job.
const selectLinks = builtStatement('task_locks.select_links', { ids: 'uuid[]' }, (db, p) =>
  db
    .select({ task_id: taskTags.task_id, tag_id: taskTags.tag_id })
    .from(taskTags)
    .innerJoin(tags, eq(tags.id, taskTags.tag_id))
    .where(and(eq(taskTags.task_id, anyOf(p.ids)), isNull(tags.deleted_at)))
    .orderBy(taskTags.tag_id),
)

const selectTasks = builtStatement(
  'task_locks.select_locked',
  { ids: 'uuid[]', with_descriptions: 'bool' },
  (db, p) =>
    db
      .select({
        id: tasks.id,
        version: tasks.version,
        side_changes: tasks.side_changes,
        title: tasks.title,
        description: sql<string>`case when ${p.with_descriptions} then ${tasks.description} else '' end`,
        status: tasks.status,
        priority: tasks.priority,
        start_at: tasks.start_at,
        start_on: tasks.start_on,
        due_at: tasks.due_at,
        due_on: tasks.due_on,
        owner_id: tasks.owner_id,
        assignee_id: tasks.assignee_id,
        project_id: tasks.project_id,
        section_id: tasks.section_id,
        parent_id: tasks.parent_id,
        position: tasks.position,
        ...seriesColumns,
        metadata: tasks.metadata,
        external_source: tasks.external_source,
        external_id: tasks.external_id,
        deleted_at: tasks.deleted_at,
        subtask_count: tasks.subtask_count,
        has_reminders: sql<boolean>`exists (select from reminders where ${reminders.task_id} = ${tasks.id})`,
        owner_zone: users.time_zone,
        owner_deleted_at: users.deleted_at,
      })
      .from(tasks)
      .innerJoin(users, eq(users.id, tasks.owner_id))
      .where(eq(tasks.id, anyOf(p.ids))),
)

const selectRelated = statement(
  'task_locks.select_related',
  { ids: 'uuid[]' },
  { id: 'text' },
  (p) => sql`
    select task_id::text as id from task_relations where task_id = ${anyOf(p.ids)}
    union select other_task_id::text from task_relations where other_task_id = ${anyOf(p.ids)}
    union select reminder.task_id::text from reminders reminder
    where reminder.task_id = ${anyOf(p.ids)} and (reminder.snoozed_until is not null or not exists (
      select from tasks repeated join reminders original on original.task_id = repeated.id
      where repeated.next_task_id = reminder.task_id and original.user_id = reminder.user_id
        and (original.relative_to, original.offset_minutes, original.time_of_day)
          = (reminder.relative_to, reminder.offset_minutes, reminder.time_of_day)))`,
)

const countTrees = statement(
  'task_locks.count_trees',
  { ids: 'uuid[]' },
  { id: 'text', tasks: 'int' },
  (p) => sql`
    with recursive tree as (
      select id, id as root from tasks where id = ${anyOf(p.ids)}
      union all select task.id, root from tree cross join lateral (
        select id from tasks where parent_id = tree.id and deleted_at is null offset 0
      ) task
    )
    select root::text as id, count(*)::int as tasks from tree group by root`,
)

const selectOwners = builtStatement('task_locks.select_owners', { ids: 'uuid[]' }, (db, p) =>
  db
    .select({ owner_id: tasks.owner_id })
    .from(tasks)
    .where(eq(tasks.id, anyOf(p.ids))),
)

const byId = <Row extends { readonly id: string }>(rows: readonly Row[]): Map<string, Row> =>
  new Map(rows.map((row) => [row.id, row]))

/**
 * Locks what a write names, and reads it under the locks. Tasks include the parents and subtasks that the write concerns.
 *
 * @throws SerializationFailure when a task was moved while its project was locked, or when others came to it while users were locked; the
 *   transaction is repeated
 */
export const lockReferences = async (
  tx: TransactionContext<Principal>,
  references: TaskReferences,
): Promise<LockedReferences> => {
  const { tasks: ids = [], parents = [], roots = [], trashed, readsDescriptions = false } = references
  const {
    users: named = [],
    projects: projectIds = [],
    sections: sectionIds = [],
    tags: tagIds = [],
  } = references
  const { toPersonal = [], anchors = [], closing = [], startsSeries = false } = references
  const { db } = tx
  const ifAny = <T>(names: readonly string[], read: () => Promise<readonly T[]>) =>
    names.length === 0 ? [] : read()
  // Users are locked before tasks, so these owners are read first. Under the lock, they are compared.
  const owners = toPersonal.length === 0 ? [] : await selectOwners(db, { ids: toPersonal })
  const userIds = [...named, ...owners.map(({ owner_id }) => owner_id)]
  const taskIds = [...ids, ...parents, ...(trashed === undefined ? [] : [trashed])]
  const namedProjects = { project_ids: projectIds, task_ids: taskIds }
  /** The trees are found while they are locked. What they are repeated from is read whole. */
  const lockTreesAndSelect = async () => {
    const trees = await lockTrees(db, { targets: ids, parents, roots, closing, trashed: trashed ?? null })
    const recurring = new Map(trees.flatMap((tree) => (tree.recurs ? [[tree.id, tree.next_task_id]] : [])))
    const withDescriptions = readsDescriptions || startsSeries || recurring.size > 0
    const wanted = trees.map(({ id }) => id)
    const found = await selectTasks(db, { ids: wanted, with_descriptions: withDescriptions })
    for (const { id, series_id, next_task_id } of found)
      if (closing.includes(id) && series_id !== null && recurring.get(id) !== next_task_id)
        throw new SerializationFailure()
    return found
  }
  const lockAndSelect = async () => {
    const { found } = await pipeline(db, {
      lock: () => lockTaskRows(db, { ids }),
      found: () => selectTasks(db, { ids, with_descriptions: readsDescriptions }),
    })
    return found
  }
  const hasTrees = references.recounts === true || taskIds.length > ids.length || roots.length > 0
  const projectSources = [...projectIds, ...taskIds]
  const linked = references.readsTags === true ? ids : []
  const { lockedUsers, lockedProjects, lockedSections, rows, projectFacts, visibleTags, namedLinks } =
    await pipeline(db, {
      lockedUsers: () =>
        ifAny([...userIds, ...closing], () =>
          lockUsers(db, { ids: userIds, repeated: closing, starts_series: startsSeries }),
        ),
      lockedProjects: () => ifAny(projectSources, () => lockProjects(db, namedProjects)),
      lockedSections: () =>
        ifAny([...sectionIds, ...anchors], () => lockSections(db, { ids: sectionIds, task_ids: anchors })),
      tags: () => ifAny(tagIds, () => lockTags(db, { ids: tagIds })),
      rows: () => ifAny(taskIds, hasTrees ? lockTreesAndSelect : lockAndSelect),
      projectFacts: () =>
        ifAny(projectSources, () => selectProjects(db, { ...namedProjects, caller: tx.principal.userId })),
      visibleTags: () => ifAny(tagIds, () => selectTags(tx, { ids: tagIds })),
      namedLinks: () => ifAny(linked, () => selectLinks(db, { ids: linked })),
    })
  const areLocked = new Set(lockedProjects.map(({ id }) => id))
  for (const { project_id } of rows)
    if (project_id !== null && !areLocked.has(project_id)) throw new SerializationFailure()
  const areLockedUsers = new Set<string | null>([null, ...lockedUsers.map(({ id }) => id)])
  const expectLocked = (userId: string | null): void => {
    if (!areLockedUsers.has(userId)) throw new SerializationFailure()
  }
  for (const { id, owner_id } of rows) if (toPersonal.includes(id)) expectLocked(owner_id)
  const taskOwners = rows.map(({ owner_id, owner_zone, owner_deleted_at }) => ({
    id: owner_id,
    time_zone: owner_zone,
    deleted_at: owner_deleted_at,
  }))
  const tasksById = byId(rows)
  const repeated = rows.filter(
    ({ id, series_id }) => closing.includes(id) && (series_id !== null || startsSeries),
  )
  const live = rows.filter(({ deleted_at }) => deleted_at === null)
  const copied = [...repeated, ...repeated.flatMap(({ id }) => subtasksOf(live, id))]
  const copiedIds = copied.map(({ id }) => id)
  const isRepeating = startsSeries || repeated.length > 0
  const whole = isRepeating ? rows.map(({ id }) => id) : []
  const growing = [...new Set(parents.flatMap((id) => recurringRoot(tasksById, id)?.id ?? []))]
  const { treeLinks, related, sizes, copiedUsers } = await pipeline(db, {
    treeLinks: () => ifAny(whole, () => selectLinks(db, { ids: whole })),
    related: () => ifAny(whole, () => selectRelated(db, { ids: whole })),
    sizes: () => ifAny(growing, () => countTrees(db, { ids: growing })),
    copiedUsers: () => ifAny(copiedIds, () => selectUsersOfTasks(db, { ids: copiedIds })),
  })
  for (const { owner_id, assignee_id } of copied) [owner_id, assignee_id].forEach(expectLocked)
  for (const { id } of copiedUsers) expectLocked(id)
  const links = Map.groupBy(isRepeating ? treeLinks : namedLinks, ({ task_id }) => task_id)
  return {
    tasks: tasksById,
    projects: byId(projectFacts),
    users: byId([...taskOwners, ...lockedUsers]),
    sections: byId(lockedSections),
    tags: byId(visibleTags),
    links: new Map([...links].map(([taskId, tags]) => [taskId, tags.map(({ tag_id }) => tag_id)])),
    related: new Set(related.map(({ id }) => id)),
    recurringTrees: new Map(sizes.map(({ id, tasks: size }) => [id, size])),
  }
}

const selectParent = builtStatement('task_locks.select_parent', { id: 'uuid' }, (db, p) =>
  db.select({ parent_id: tasks.parent_id }).from(tasks).where(eq(tasks.id, p.id)),
)

/** References of a task in the trash, with those that were deleted with it, and with the tree that it would return to. */
export const referencesOfTrashed = async (
  { db }: TransactionContext,
  id: string,
): Promise<TaskReferences> => {
  const [task] = await selectParent(db, { id })
  // A task in the trash gets no other parent.
  return { trashed: id, parents: task?.parent_id == null ? [] : [task.parent_id] }
}
