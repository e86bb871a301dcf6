import { type Principal, type Relation, relationsToTask } from '../../domain/shared/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { anyOf, type Placeholders } from '../statements/parameters.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { SerializationFailure } from '../engine/errors.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow } from '../statements/row-statements.ts'
import type { StatementName } from '../statements/statement.ts'
import { and, eq, isNull, type SQL, sql } from '../schema/drizzle.ts'
import { memberships, projects, tasks, users } from '../schema/tables.ts'
import { touched, touchedBeside } from '../shared/touch.ts'

/** What a write to what belongs to a task depends on. */
export interface TaskFacts {
  readonly id: string
  readonly owner_id: string
  readonly version: number
  /** When its project was archived. */
  readonly archived_at: string | null
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const projectParameters = { project_ids: 'uuid[]', task_ids: 'uuid[]' } as const

/** Any of the ids of projects that are named or have the tasks. */
export const idsOfProjects = (p: Placeholders<typeof projectParameters>): SQL =>
  sql`any(array(select unnest(${p.project_ids}) union select project_id from tasks where id = ${anyOf(p.task_ids)}))`

/**
 * Locks projects, those named and those of tasks, in the order of their ids. Archiving a project or moving it to the trash waits for the
 * write, and the write for it.
 */
export const lockProjects = builtStatement('tasks.lock_projects', projectParameters, (db, p) =>
  db
    .select({ id: projects.id })
    .from(projects)
    .where(eq(projects.id, idsOfProjects(p)))
    .orderBy(projects.id)
    .for('key share'),
)

/** Locks tasks, in the order of their ids. */
export const lockTaskRows = builtStatement('tasks.lock', { ids: 'uuid[]' }, (db, p) =>
  db
    .select({ id: tasks.id })
    .from(tasks)
    .where(eq(tasks.id, anyOf(p.ids)))
    .orderBy(tasks.id)
    .for('no key update'),
)

/** Selects the facts of tasks that meet a condition on `ids`. */
const factsOfTasks = (name: StatementName, areTasks: (ids: SQL) => SQL) =>
  builtStatement(name, { ids: 'uuid[]', caller: 'uuid' }, (db, p) =>
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
      .where(and(areTasks(p.ids), isNull(tasks.deleted_at))),
  )

const selectFacts = factsOfTasks('tasks.select_facts', (ids) => sql`${tasks.id} = any(${ids})`)

const selectFactsOfUploads = factsOfTasks(
  'tasks.select_facts_of_uploads',
  (ids) => sql`${tasks.id} = any(array(select task_id from uploads where uploads.id = any(${ids})))`,
)

type FactsRow = Awaited<ReturnType<typeof selectFacts>>[number]

const factsIn = (row: FactsRow, principal: Principal): TaskFacts => {
  const { id, owner_id, version, archived_at, project_id } = row
  const isListLive = (project_id === null ? row.owner_deleted_at : row.project_deleted_at) === null
  return { id, owner_id, version, archived_at, relations: relationsToTask(principal, { ...row, isListLive }) }
}

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
  const { locked, rows } = await pipeline(db, {
    locked: () => lockProjects(db, { project_ids: [], task_ids: ids }),
    lock: () => lockTaskRows(db, { ids }),
    rows: () => selectFacts(db, { ids, caller: principal.userId }),
  })
  const lockedProjects = new Set(locked.map(({ id }) => id))
  return new Map(
    rows.map((row) => {
      const { id, project_id } = row
      if (project_id !== null && !lockedProjects.has(project_id)) throw new SerializationFailure()
      return [id, factsIn(row, principal)]
    }),
  )
}

/** Locks one task as `lockTasks` does; null if it does not exist or is in the trash. */
export const lockTask = async (tx: TransactionContext<Principal>, id: string): Promise<TaskFacts | null> => {
  const [task = null] = (await lockTasks(tx, [id])).values()
  return task
}

/** Reads a task without a lock, unless it is in the trash: for a check that a later transaction repeats under its lock. */
export const readTask = async (
  { db, principal }: StatementContext<Principal>,
  id: string,
): Promise<TaskFacts | null> => {
  const [row] = await selectFacts(db, { ids: [id], caller: principal.userId })
  return row === undefined ? null : factsIn(row, principal)
}

/** The same for the task of an upload. */
export const readTaskOfUpload = async (
  { db, principal }: StatementContext<Principal>,
  id: string,
): Promise<TaskFacts | null> => {
  const [row] = await selectFactsOfUploads(db, { ids: [id], caller: principal.userId })
  return row === undefined ? null : factsIn(row, principal)
}

const touch = builtStatement('tasks.touch', { ids: 'uuid[]' }, (db, p) =>
  db
    .update(tasks)
    .set(touched(tasks))
    .where(eq(tasks.id, anyOf(p.ids))),
)

/** Gives locked tasks a new version, because their tags have changed. */
export const touchTasks = async (
  { db }: Pick<TransactionContext, 'db'>,
  ids: readonly string[],
): Promise<void> => {
  if (ids.length > 0) await touch(db, { ids })
}

const countComments = builtStatement('tasks.count_comments', { id: 'uuid', change: 'int' }, (db, p) =>
  db
    .update(tasks)
    .set({ comment_count: sql`${tasks.comment_count} + ${p.change}`, ...touchedBeside(tasks) })
    .where(eq(tasks.id, p.id))
    .returning({ version: tasks.version }),
)

/** Counts a new or a deleted comment. Returns the version of the task, which stays. */
export const countComment = async ({ db }: TransactionContext, id: string, change: 1 | -1): Promise<number> =>
  expectRow(await countComments(db, { id, change })).version

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

const countAttachments = builtStatement('tasks.count_attachments', { id: 'uuid', change: 'int' }, (db, p) =>
  db
    .update(tasks)
    .set({ attachment_count: sql`${tasks.attachment_count} + ${p.change}`, ...touchedBeside(tasks) })
    .where(eq(tasks.id, p.id))
    .returning({ version: tasks.version }),
)

/** Counts a new or a deleted attachment. Returns the version of the task, which stays. */
export const countAttachment = async (
  { db }: TransactionContext,
  id: string,
  change: 1 | -1,
): Promise<number> => expectRow(await countAttachments(db, { id, change })).version
