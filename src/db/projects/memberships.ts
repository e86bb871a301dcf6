import { LastManager } from '../../domain/projects/managers.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { anyOf } from '../statements/parameters.ts'
import type { TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { statement } from '../statements/statement.ts'
import { endVisibility, hasManyTasks } from './redelivery.ts'
import { eq, sql } from '../schema/drizzle.ts'
import { memberships, projectMembers, projects, teamMembers, teams, users } from '../schema/tables.ts'

/**
 * `memberships` stores who has access to a project: who was granted it, by their own role or by a team. Whoever changes
 * `project_members`, `project_teams` or `team_members`, or deletes a user, calls `grantAccess` in the same transaction. Locks are taken
 * in the order: users, teams, projects, each by id.
 */

const compute = statement(
  'memberships.compute',
  { projects: 'uuid[]', users: 'uuid[]?' },
  {},
  (p) => sql`
    select record_event(
      case when role_before is null then 'member.added' when role_after is null then 'member.removed' else 'member.changed' end,
      null, project_id, null, null, user_id,
      jsonb_strip_nulls(jsonb_build_object('role', role_before)), jsonb_strip_nulls(jsonb_build_object('role', role_after))
    )::text as recorded
    from compute_memberships(${p.projects}, ${p.users})`,
)

const selectUnmanaged = builtStatement('memberships.select_unmanaged', { projects: 'uuid[]' }, (db, p) =>
  db
    .select({ id: projects.id })
    .from(projects)
    .where(
      sql`${projects.id} = any(${p.projects}) and ${projects.deleted_at} is null and not exists (
        select from memberships where ${memberships.project_id} = ${projects.id} and ${memberships.role} = 'manager')`,
    )
    .limit(1),
)

/** What a change of grants affects. */
interface Affected {
  /** The ids of projects that the transaction has locked against writers (`close`). */
  readonly projects: readonly string[]
  /** The ids of users; null: everybody. */
  readonly users: readonly string[] | null
}

/**
 * Gives users the access to projects that they have been granted, ends other access, and records what has changed.
 *
 * @throws LastManager when nobody would manage one of the projects
 */
export const grantAccess = (tx: TransactionContext, affected: Affected): Promise<void> | null =>
  affected.projects.length === 0 ? null : computeAccess(tx, affected)

const computeAccess = async ({ db }: TransactionContext, affected: Affected): Promise<void> => {
  const { unmanaged } = await pipeline(db, {
    memberships: () => compute(db, { ...affected }),
    unmanaged: () => selectUnmanaged(db, affected),
  })
  if (unmanaged.length > 0) throw new LastManager('project')
}

const upsert = builtStatement(
  'project_members.upsert',
  { project_id: 'uuid', user_id: 'uuid', role: 'text' },
  (db, p) =>
    db
      .insert(projectMembers)
      .values({ project_id: p.project_id, user_id: p.user_id, role: p.role })
      .onConflictDoUpdate({
        target: [projectMembers.project_id, projectMembers.user_id],
        set: { role: p.role, version: sql`${projectMembers.version} + 1` },
      }),
)

/** A role of a user in a project. */
export interface OwnRole {
  readonly projectId: string
  readonly userId: string
  readonly role: ProjectRole
}

/** Stores a user's own role in a locked project, which does not give access yet. */
export const setOwnRole = async (
  { db }: TransactionContext,
  { projectId, userId, role }: OwnRole,
): Promise<void> => {
  await upsert(db, { project_id: projectId, user_id: userId, role })
}

/**
 * Gives a user their own role in a locked project.
 *
 * @throws LastManager when they were its last manager
 */
export const grantRole = async (tx: TransactionContext, own: OwnRole): Promise<void> => {
  await pipeline(tx.db, {
    ownRole: () => setOwnRole(tx, own),
    access: () => grantAccess(tx, { projects: [own.projectId], users: [own.userId] }),
  })
}

const lockMany = builtStatement('projects.lock_many', { ids: 'uuid[]' }, (db, p) =>
  db
    .select({ id: projects.id })
    .from(projects)
    .where(eq(projects.id, anyOf(p.ids)))
    .orderBy(projects.id)
    .for('update'),
)

/** Locks projects to change who has access to them. */
export const lockProjectsToClose = (
  { db }: TransactionContext,
  ids: readonly string[],
): Promise<unknown> | null => (ids.length === 0 ? null : lockMany(db, { ids }))

/** The members of the row `teams` who are not deleted; ends with a condition. */
const fromMembersOfTeam = sql`
  from team_members join users on ${users.id} = ${teamMembers.user_id} and ${users.deleted_at} is null
  where ${teamMembers.team_id} = ${teams.id}`

const selectTeamsWithoutManager = builtStatement('teams.select_unmanaged', { teams: 'uuid[]' }, (db, p) =>
  db
    .select({ id: teams.id })
    .from(teams)
    .where(
      sql`${teams.id} = any(${p.teams}) and not exists (select ${fromMembersOfTeam} and ${teamMembers.role} = 'manager')`,
    )
    .limit(1),
)

/**
 * Requires that teams whose members the transaction has changed have a manager.
 *
 * @throws LastManager
 */
export const expectTeamManagers = async (
  { db }: TransactionContext,
  ids: readonly string[],
): Promise<void> => {
  const unmanaged = await selectTeamsWithoutManager(db, { teams: ids })
  if (unmanaged.length > 0) throw new LastManager('team')
}

const lockTeamsOfManager = builtStatement('teams.lock_of_manager', { user_id: 'uuid' }, (db, p) =>
  db
    .select({ id: teams.id })
    .from(teams)
    .where(
      sql`${teams.id} in (
        select ${teamMembers.team_id} from team_members
        where ${teamMembers.user_id} = ${p.user_id} and ${teamMembers.role} = 'manager')`,
    )
    .orderBy(teams.id)
    .for('update'),
)

// Those in the trash as well, because restoring a project computes memberships.
const lockProjectsOfUser = builtStatement('projects.lock_of_user', { user_id: 'uuid' }, (db, p) =>
  db
    .select({ id: projects.id })
    .from(projects)
    .where(sql`${projects.id} in (select project_id from project_grants where user_id = ${p.user_id})`)
    .orderBy(projects.id)
    .for('update'),
)

/** Whether nobody but deleted users is granted access to the project. */
const isAbandoned = sql`not exists (
  select from project_grants other join users on ${users.id} = other.user_id and ${users.deleted_at} is null
  where other.project_id = ${projects.id})`

const trashAbandoned = builtStatement('projects.trash_abandoned', { ids: 'uuid[]' }, (db, p) =>
  db
    .update(projects)
    .set({ deleted_at: sql`now()`, is_redelivering: hasManyTasks })
    .where(sql`${projects.id} = ${anyOf(p.ids)} and ${projects.deleted_at} is null and ${isAbandoned}`)
    .returning({ id: projects.id }),
)

const purgeAbandoned = builtStatement('projects.purge_abandoned', { ids: 'uuid[]' }, (db, p) =>
  db
    .update(projects)
    .set({ purged_at: sql`now()` })
    .where(
      sql`${projects.id} = ${anyOf(p.ids)} and ${projects.deleted_at} is not null and ${projects.purged_at} is null and ${isAbandoned}`,
    ),
)

const removeAbandonedTeams = builtStatement('teams.delete_abandoned', { ids: 'uuid[]' }, (db, p) =>
  db.delete(teams).where(sql`${eq(teams.id, anyOf(p.ids))} and not exists (select ${fromMembersOfTeam})`),
)

/** Ends the access of a deleted user to locked projects. */
const endAccessTo = async (tx: TransactionContext, userId: string, ids: readonly string[]): Promise<void> => {
  const { trashed } = await pipeline(tx.db, {
    trashed: () => trashAbandoned(tx.db, { ids }),
    purged: () => purgeAbandoned(tx.db, { ids }),
  })
  await pipeline(tx.db, {
    visibility: () =>
      trashed.length > 0 &&
      endVisibility(
        tx.db,
        trashed.map(({ id }) => id),
      ),
    access: () => grantAccess(tx, { projects: ids, users: [userId] }),
  })
}

/** Takes locked teams away from a deleted manager. */
const endManagementOf = async (tx: TransactionContext, ids: readonly string[]): Promise<void> => {
  await pipeline(tx.db, {
    teams: () => removeAbandonedTeams(tx.db, { ids }),
    managers: () => expectTeamManagers(tx, ids),
  })
}

/**
 * Ends the access of a user whom the transaction has deleted, and who was locked before. Deletes the projects, also those in the trash,
 * and the teams to which only they had access.
 *
 * @throws LastManager when others have access to a project or team that nobody else manages
 */
export const endAccessOfUser = async (tx: TransactionContext, userId: string): Promise<void> => {
  const { managed, granted } = await pipeline(tx.db, {
    managed: () => lockTeamsOfManager(tx.db, { user_id: userId }),
    granted: () => lockProjectsOfUser(tx.db, { user_id: userId }),
  })
  const idsOf = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id)
  await pipeline(tx.db, {
    projects: () => granted.length > 0 && endAccessTo(tx, userId, idsOf(granted)),
    teams: () => managed.length > 0 && endManagementOf(tx, idsOf(managed)),
  })
}
