import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  listReader,
  type Principal,
  type Relation,
  relationsToProject,
} from '../../domain/shared/permissions.ts'
import { allowsProject, isProjectInTrash, trashedProjectBranches } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { firstRow } from '../statements/row-statements.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { query } from '../statements/statement.ts'
import { deletedAt, lastDeletedFirst, selectPage } from '../lists/list.ts'
import { setOwnRole } from '../projects/memberships.ts'
import { lockToClose, projectColumns, type ProjectRow } from '../projects/rows.ts'
import { beginVisibility, hasManyTasks } from '../projects/redelivery.ts'
import { trashedProjectJson } from '../shared/read-models.ts'
import { aliasedTable, eq, type SQL, sql } from '../schema/drizzle.ts'
import { projects, users } from '../schema/tables.ts'
import type { TrashFilter } from './trash.ts'
import { touched } from '../shared/touch.ts'

const person = aliasedTable(users, 'person')

const project = aliasedTable(projects, 'project')

/** A page of the projects in the trash that the caller may restore, most recently deleted first. */
export const selectTrashedProjects = (
  { db, principal }: StatementContext<Principal>,
  filter: TrashFilter,
  page: PageRequest,
): Promise<Page> => {
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'trashed_projects',
      table: projects,
      branches: (caller) => trashedProjectBranches(reader.role, caller),
      sortFields: { deleted_at: deletedAt },
      order: lastDeletedFirst,
      json: trashedProjectJson,
    },
    reader,
    page,
  )
}

const selectOne = query(
  'trashed_projects.select',
  { id: 'uuid' },
  projectColumns,
  (p) => sql`
    select ${trashedProjectJson(project, p)} as json from projects project where ${project.id} = ${p.id} and ${allowsProject('project_trash.see', p, project)}`,
)

/** One project in the trash, if the caller may restore it. */
export const selectTrashedProject = async (ctx: StatementContext, id: string): Promise<ProjectRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** What restoring or deleting a project in the trash depends on. */
export interface TrashedProjectFacts {
  readonly id: string
  readonly version: number
  /** Whether a user who still exists manages it. */
  readonly hasManager: boolean
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

// The memberships of a project in the trash have ended; its managers are found by their grants.
const selectFacts = query(
  'trashed_projects.select_facts',
  { id: 'uuid' },
  { version: 'int', is_manager: 'bool', has_manager: 'bool' },
  (p) => {
    const { id, version } = project
    const isGrantedTo = (condition: SQL): SQL => sql`exists (
      select from project_grants granted join users person on ${person.id} = granted.user_id
      where granted.project_id = ${id} and granted.role = 'manager' and ${condition})`
    const isLive = sql`${person.deleted_at} is null`
    return sql`
      select ${version}, ${isGrantedTo(sql`granted.user_id = ${p.caller}`)} as is_manager, ${isGrantedTo(isLive)} as has_manager
      from projects project where ${id} = ${p.id} and ${isProjectInTrash(project)}
        and exists (select from users person where ${person.id} = ${p.caller} and ${isLive})`
  },
)

/** Locks a project, and reads it under the lock if it is in the trash and the caller was not deleted meanwhile. */
export const lockTrashedProject = async (
  tx: TransactionContext<Principal>,
  id: string,
): Promise<TrashedProjectFacts | null> => {
  const { facts } = await pipeline(tx.db, {
    lock: () => lockToClose(tx.db, { id }),
    facts: () => selectFacts(tx, { id }),
  })
  const [row] = facts
  if (row === undefined) return null
  const relations = relationsToProject(tx.principal, row.is_manager ? 'manager' : null)
  return { id, version: row.version, hasManager: row.has_manager, relations }
}

const lockPeople = builtStatement('trashed_projects.lock_people', { id: 'uuid', caller: 'uuid' }, (db, p) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(
      sql`${users.id} = ${p.caller} or ${users.id} in (select user_id from project_grants where project_id = ${p.id})`,
    )
    .orderBy(users.id)
    .for('key share'),
)

/** Locks the users who get access to a project in the trash when it is restored, before the project. */
export const lockTrashedMembers = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<void> => {
  await lockPeople(db, { id, caller: principal.userId })
}

const restore = builtStatement('trashed_projects.restore', { id: 'uuid' }, (db, p) =>
  db
    .update(projects)
    .set({
      deleted_at: null,
      // The change feed delivers the project again to everybody.
      visible_in: sql`pg_current_xact_id()`,
      is_redelivering: hasManyTasks,
      ...touched(projects),
    })
    .where(eq(projects.id, p.id)),
)

/** Restores a project, and the access of its members. If it has no manager, the caller becomes one. */
export const takeFromTrash = async (
  tx: TransactionContext<Principal>,
  { id, hasManager }: Authorized<'project_trash.restore', TrashedProjectFacts>,
): Promise<void> => {
  const { db, principal } = tx
  if (!hasManager) await setOwnRole(tx, { projectId: id, userId: principal.userId, role: 'manager' })
  await pipeline(tx.db, {
    project: () => restore(db, { id }),
    visibility: () => beginVisibility(db, [id]),
  })
}

const purge = builtStatement('trashed_projects.purge', { id: 'uuid' }, (db, p) =>
  db
    .update(projects)
    .set({ purged_at: sql`now()` })
    .where(eq(projects.id, p.id)),
)

/** Deletes a project permanently. It disappears immediately; its content is deleted in batches (`purge.ts`). */
export const purgeProject = async (
  { db }: TransactionContext,
  { id }: Authorized<'project_trash.delete', TrashedProjectFacts>,
): Promise<void> => {
  await purge(db, { id })
}
