import { type Principal, type Relation, relationsToTask } from '../domain/permissions.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { TransactionContext } from './engine/context.ts'
import { SerializationFailure } from './engine/errors.ts'
import { and, eq, isNull, sql } from './schema/drizzle.ts'
import { memberships, projects, tasks, users } from './schema/tables.ts'
import { touched } from './touch.ts'

/** What a write to what belongs to a task depends on. */
export interface TaskFacts {
  readonly id: string
  readonly version: number
  /** When its project was archived. */
  readonly archived_at: string | null
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

// Against the project's end: archiving it or moving it to the trash waits for the write, and the write for it.
const lockProjects = builtStatement('tasks.lock_projects', { ids: 'uuid[]' }, (db, p) =>
  db
    .select({ id: projects.id })
    .from(projects)
    .where(sql`${projects.id} = any(array(select project_id from tasks where id = any(${p.ids})))`)
    .orderBy(projects.id)
    .for('key share'),
)

const lock = builtStatement('tasks.lock', { ids: 'uuid[]' }, (db, p) =>
  db
    .select({ id: tasks.id })
    .from(tasks)
    .where(eq(tasks.id, sql`any(${p.ids})`))
    .orderBy(tasks.id)
    .for('no key update'),
)

const selectFacts = builtStatement('tasks.select_facts', { ids: 'uuid[]', caller: 'uuid' }, (db, p) =>
  db
    .select({
      id: tasks.id,
      version: tasks.version,
      owner_id: tasks.owner_id,
      assignee_id: tasks.assignee_id,
      project_id: tasks.project_id,
      archived_at: projects.archived_at,
      project_deleted_at: projects.deleted_at,
      owner_deleted_at: users.deleted_at,
      role: memberships.role,
    })
    .from(tasks)
    .innerJoin(users, eq(users.id, tasks.owner_id))
    .leftJoin(projects, eq(projects.id, tasks.project_id))
    .leftJoin(
      memberships,
      and(eq(memberships.project_id, tasks.project_id), eq(memberships.user_id, p.caller)),
    )
    .where(and(eq(tasks.id, sql`any(${p.ids})`), isNull(tasks.deleted_at))),
)

/**
 * Locks tasks in the order of their ids and, before them, their projects, and reads the tasks under the locks. Those in the trash are
 * left out. The keys are ids as the database writes them, in lower case.
 *
 * @throws SerializationFailure when a task was moved while its project was locked; the transaction is repeated
 */
export const lockTasks = async (
  { db, principal }: TransactionContext<Principal>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, TaskFacts>> => {
  const [locked, , rows] = await Promise.all([
    lockProjects(db, { ids }),
    lock(db, { ids }),
    selectFacts(db, { ids, caller: principal.userId }),
  ])
  const lockedProjects = new Set(locked.map(({ id }) => id))
  return new Map(
    rows.map((row) => {
      const { id, version, archived_at, project_id } = row
      if (project_id !== null && !lockedProjects.has(project_id)) throw new SerializationFailure()
      const isListLive = (project_id === null ? row.owner_deleted_at : row.project_deleted_at) === null
      const relations = relationsToTask(principal, { ...row, isListLive })
      return [id, { id, version, archived_at, relations }]
    }),
  )
}

/** Locks one task as `lockTasks` does; null if it does not exist or is in the trash. */
export const lockTask = async (tx: TransactionContext<Principal>, id: string): Promise<TaskFacts | null> => {
  const [task = null] = (await lockTasks(tx, [id])).values()
  return task
}

const touch = builtStatement('tasks.touch', { ids: 'uuid[]' }, (db, p) =>
  db
    .update(tasks)
    .set(touched(tasks))
    .where(eq(tasks.id, sql`any(${p.ids})`))
    .returning({ version: tasks.version }),
)

/** Gives locked tasks a new version, because something that belongs to them has changed. */
export const touchTasks = async (
  { db }: Pick<TransactionContext, 'db'>,
  ids: readonly string[],
): Promise<void> => {
  if (ids.length > 0) await touch(db, { ids })
}

/** The same for one task. Returns the version. */
export const touchTask = async ({ db }: TransactionContext, id: string): Promise<number> =>
  versionOf(await touch(db, { ids: [id] }))

const versionOf = ([row]: readonly { readonly version: number }[]): number => {
  if (row === undefined) throw new Error('The locked task is gone')
  return row.version
}

const count = builtStatement('tasks.count_comments', { id: 'uuid', change: 'int' }, (db, p) =>
  db
    .update(tasks)
    .set({ comment_count: sql`${tasks.comment_count} + ${p.change}`, ...touched(tasks) })
    .where(eq(tasks.id, p.id))
    .returning({ version: tasks.version }),
)

/** Counts a new or a deleted comment. Returns the version that the task has then. */
export const countComment = async ({ db }: TransactionContext, id: string, change: 1 | -1): Promise<number> =>
  versionOf(await count(db, { id, change }))

// Whether a task is blocked is no part of its version. The change feed delivers it again.
const countBlocking = builtStatement('tasks.count_blockers', { id: 'uuid', change: 'int' }, (db, p) =>
  db
    .update(tasks)
    .set({ blocker_count: sql`${tasks.blocker_count} + ${p.change}`, changed_in: sql`pg_current_xact_id()` })
    .where(eq(tasks.id, p.id)),
)

/** Counts a task that blocks the locked one, or no longer does. */
export const countBlocker = async ({ db }: TransactionContext, id: string, change: 1 | -1): Promise<void> => {
  await countBlocking(db, { id, change })
}
