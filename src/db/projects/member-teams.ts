import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import { onlyBranch } from '../access/branches.ts'
import { seesProject } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter, type Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { newest, selectPageOf } from '../lists/list.ts'
import { type MemberRow } from '../shared/lock-member.ts'
import { grantAccess } from './memberships.ts'
import { isProjectVisible, lockProject, type ManagedProject, type ProjectFacts } from './rows.ts'
import { projectTeamJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, type SQL, sql } from '../schema/drizzle.ts'
import { projectTeams, teams, users } from '../schema/tables.ts'
import { lockTeam, type TeamFacts } from './teams.ts'

const shared = aliasedTable(projectTeams, 'shared')
const team = aliasedTable(teams, 'team')

/** A project, and a team that may be its member. */
export interface ProjectTeamKey {
  readonly projectId: string
  readonly teamId: string
}

const key = { project_id: 'uuid', team_id: 'uuid' } as const

/** The teams of a project, with their names. */
const teamsOf = (projectId: SQL): SQL => sql`(
  select ${shared.team_id} as id, shared.*, ${team.name}
  from project_teams shared join teams team on ${team.id} = ${shared.team_id} where ${shared.project_id} = ${projectId})`

const select = query(
  'project_teams.select',
  key,
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${projectTeamJson(shared, sql`${shared}.name`)} as json, ${shared.version}
    from ${teamsOf(p.project_id)} shared where ${shared}.id = ${p.team_id} and ${seesProject(p, p.project_id)}`,
)

/** One team of a project, if the caller can see the project. */
export const selectProjectTeam = async (
  ctx: StatementContext,
  { projectId, teamId }: ProjectTeamKey,
): Promise<MemberRow | null> => firstRow(await select(ctx, { project_id: projectId, team_id: teamId }))

/** The role of a team in a project. */
export interface ProjectTeamFacts {
  readonly project: ProjectFacts | null
  readonly team: TeamFacts | null
  /** Null if the project does not have the team. */
  readonly role: ProjectRole | null
  readonly version: number | null
}

// They get access to the project, which shares the lock.
const lockPeople = builtStatement('project_teams.lock_people', { team_id: 'uuid' }, (db, p) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(sql`${users.id} in (select user_id from team_members where team_id = ${p.team_id})`)
    .orderBy(users.id)
    .for('key share'),
)

const isKey = (p: Placeholders<typeof key>) =>
  and(eq(projectTeams.project_id, p.project_id), eq(projectTeams.team_id, p.team_id))

const selectFacts = builtStatement('project_teams.select_facts', key, (db, p) =>
  db.select({ role: projectTeams.role, version: projectTeams.version }).from(projectTeams).where(isKey(p)),
)

/** Locks a team with its members, and a project, and reads both under the locks. */
export const lockProjectTeam = async (
  tx: TransactionContext<Principal>,
  { projectId, teamId }: ProjectTeamKey,
): Promise<ProjectTeamFacts> => {
  const { team, project, facts } = await pipeline(tx.db, {
    people: () => lockPeople(tx.db, { team_id: teamId }),
    team: () => lockTeam(tx, teamId, 'change'),
    project: () => lockProject(tx, projectId, 'close'),
    facts: () => selectFacts(tx.db, { project_id: projectId, team_id: teamId }),
  })
  const [row] = facts
  return { project, team, role: row?.role ?? null, version: row?.version ?? null }
}

const upsert = builtStatement('project_teams.upsert', { ...key, role: 'text' }, (db, p) =>
  db
    .insert(projectTeams)
    .values({ project_id: p.project_id, team_id: p.team_id, role: p.role })
    .onConflictDoUpdate({
      target: [projectTeams.project_id, projectTeams.team_id],
      set: { role: p.role, version: sql`${projectTeams.version} + 1` },
    }),
)

/**
 * Gives a team a role in a project.
 *
 * @throws LastManager when nobody else manages the project
 */
export const setRole = async (
  tx: TransactionContext,
  { id: project_id }: ManagedProject,
  { teamId: team_id, role }: { readonly teamId: string; readonly role: ProjectRole },
): Promise<void> => {
  await pipeline(tx.db, {
    team: () => upsert(tx.db, { project_id, team_id, role }),
    access: () => grantAccess(tx, { projects: [project_id], users: null }),
  })
}

const remove = builtStatement('project_teams.delete', key, (db, p) => db.delete(projectTeams).where(isKey(p)))

/**
 * Removes a team from a project.
 *
 * @throws LastManager when nobody else manages the project
 */
export const removeRole = async (
  tx: TransactionContext,
  { id: project_id }: ManagedProject,
  team_id: string,
): Promise<void> => {
  await pipeline(tx.db, {
    team: () => remove(tx.db, { project_id, team_id }),
    access: () => grantAccess(tx, { projects: [project_id], users: null }),
  })
}

/** A team of a project that the transaction has written. The lock of the project keeps it visible. */
export const viewProjectTeam = async (
  tx: TransactionContext,
  { projectId, teamId }: ProjectTeamKey,
): Promise<MemberRow> => expectRow(await select(tx, { project_id: projectId, team_id: teamId }))

/** A page of the teams of a project, if the caller can see it. */
export const selectProjectTeams = (
  ctx: StatementContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Page | null> => {
  const id = parameter('project_id', 'uuid')
  return selectPageOf(
    ctx,
    {
      name: 'project_teams',
      table: projectTeams,
      from: sql`${teamsOf(id)} item`,
      branches: (caller) => onlyBranch(seesProject(caller, id)),
      values: { project_id: projectId },
      ...newest,
      json: (row) => projectTeamJson(row, sql`${row}.name`),
    },
    page,
    () => isProjectVisible(ctx, projectId),
  )
}
