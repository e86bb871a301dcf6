import { type Principal, type Relation, relationsToTask } from '../domain/permissions.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { StatementContext, TransactionContext } from './engine/context.ts'
import { SerializationFailure } from './engine/errors.ts'
import type { StatementName } from './engine/statement.ts'
import { and, eq, isNull, type SQL, sql } from './schema/drizzle.ts'
import { memberships, projects, tasks, users } from './schema/tables.ts'
import { touched } from './touch.ts'

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

// Against the project's end: archiving it or moving it to the trash waits for the write, and the write for it.
const lockProject = builtStatement('tasks.lock_project', { id: 'uuid' }, (db, p) =>
  db
    .select({ id: projects.id })
    .from(projects)
    .where(sql`${projects.id} = (select project_id from tasks where id = ${p.id})`)
    .for('key share'),
)

const lock = builtStatement('tasks.lock', { id: 'uuid' }, (db, p) =>
  db.select({ id: tasks.id }).from(tasks).where(eq(tasks.id, p.id)).for('no key update'),
)

/** Selects the facts of the task that meets a condition on `id`. */
const factsOfTask = (name: StatementName, isTask: (id: SQL) => SQL) =>
  builtStatement(name, { id: 'uuid', caller: 'uuid' }, (db, p) =>
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
      .where(and(isTask(p.id), isNull(tasks.deleted_at))),
  )

const selectFacts = factsOfTask('tasks.select_facts', (id) => eq(tasks.id, id))

const selectFactsOfUpload = factsOfTask(
  'tasks.select_facts_of_upload',
  (id) => sql`${tasks.id} = (select task_id from uploads where uploads.id = ${id})`,
)

type FactsRow = Awaited<ReturnType<typeof selectFacts>>[number]

const factsIn = (principal: Principal, row: FactsRow): TaskFacts => {
  const { id, owner_id, version, archived_at } = row
  const isListLive = (row.project_id === null ? row.owner_deleted_at : row.project_deleted_at) === null
  return { id, owner_id, version, archived_at, relations: relationsToTask(principal, { ...row, isListLive }) }
}

/**
 * Locks a task and, before it, its project, and reads the task under the locks, unless it is in the trash.
 *
 * @throws SerializationFailure when the task was moved while its project was locked; the transaction is repeated
 */
export const lockTask = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<TaskFacts | null> => {
  const [[locked], , [row]] = await Promise.all([
    lockProject(db, { id }),
    lock(db, { id }),
    selectFacts(db, { id, caller: principal.userId }),
  ])
  if (row === undefined) return null
  if (row.project_id !== null && row.project_id !== locked?.id) throw new SerializationFailure()
  return factsIn(principal, row)
}

/** Reads a task without a lock, unless it is in the trash: for a check before a write that checks again, or one that does not change it. */
export const readTask = async (
  { db, principal }: StatementContext<Principal>,
  id: string,
): Promise<TaskFacts | null> => {
  const [row] = await selectFacts(db, { id, caller: principal.userId })
  return row === undefined ? null : factsIn(principal, row)
}

/** The same for the task of an upload. */
export const readTaskOfUpload = async (
  { db, principal }: StatementContext<Principal>,
  id: string,
): Promise<TaskFacts | null> => {
  const [row] = await selectFactsOfUpload(db, { id, caller: principal.userId })
  return row === undefined ? null : factsIn(principal, row)
}

const touch = builtStatement('tasks.touch', { id: 'uuid' }, (db, p) =>
  db.update(tasks).set(touched(tasks)).where(eq(tasks.id, p.id)).returning({ version: tasks.version }),
)

/** Gives a locked task a new version, because something that belongs to it has changed. Returns the version. */
export const touchTask = async ({ db }: TransactionContext, id: string): Promise<number> =>
  versionOf(await touch(db, { id }))

const versionOf = ([row]: readonly { readonly version: number }[]): number => {
  if (row === undefined) throw new Error('The locked task is gone')
  return row.version
}

const countComments = builtStatement('tasks.count_comments', { id: 'uuid', change: 'int' }, (db, p) =>
  db
    .update(tasks)
    .set({ comment_count: sql`${tasks.comment_count} + ${p.change}`, ...touched(tasks) })
    .where(eq(tasks.id, p.id))
    .returning({ version: tasks.version }),
)

/** Counts a new or a deleted comment. Returns the version that the task has then. */
export const countComment = async ({ db }: TransactionContext, id: string, change: 1 | -1): Promise<number> =>
  versionOf(await countComments(db, { id, change }))

const countAttachments = builtStatement('tasks.count_attachments', { id: 'uuid', change: 'int' }, (db, p) =>
  db
    .update(tasks)
    .set({ attachment_count: sql`${tasks.attachment_count} + ${p.change}`, ...touched(tasks) })
    .where(eq(tasks.id, p.id))
    .returning({ version: tasks.version }),
)

/** Counts a new or a deleted attachment. Returns the version that the task has then. */
export const countAttachment = async (
  { db }: TransactionContext,
  id: string,
  change: 1 | -1,
): Promise<number> => versionOf(await countAttachments(db, { id, change }))
