import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import type { ProjectRole } from '../domain/project-roles.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsProject, allowsTeam, seesProject } from './access/permissions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import {
  checkedOutcome,
  outcomeOfUpsert,
  readChangedRow,
  readOutcome,
  stillMeetsConditions,
} from './engine/outcome.ts'
import { parameter, type Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  pageIfVisible,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { type ChangedMember, changedMemberColumns, type MemberRow } from './members.ts'
import { isProjectVisible } from './projects.ts'
import { projectTeamJson } from './read-models.ts'
import { columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** A project, and a team that may be its member. */
export interface ProjectTeamKey {
  readonly projectId: string
  readonly teamId: string
}

const key = { project_id: 'uuid', team_id: 'uuid' } as const
const project = sql.raw('project')
const team = sql.raw('team')
const current = sql.raw('current')
const currentVersion = columnsOf<'project_teams'>(current).version
const storedEtag = sql`${columnsOf<'project_teams'>(sql`stored`).version}::text`

/** The teams of a project, with their names. */
const teamsOf = (projectId: SQL): SQL => sql`(
  select shared.team_id as id, shared.*, team.name
  from project_teams shared join teams team on team.id = shared.team_id where shared.project_id = ${projectId})`

const select = query(
  'project_teams.select',
  key,
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${projectTeamJson(sql`shared`, sql`shared.name`)} as json, shared.version
    from ${teamsOf(p.project_id)} shared where shared.id = ${p.team_id} and ${seesProject(p, p.project_id)}`,
)

/** One team of a project, if the caller can see the project. */
export const selectProjectTeam = async (
  ctx: OpContext,
  { projectId, teamId }: ProjectTeamKey,
): Promise<Outcome<MemberRow>> => {
  const [row] = await select(ctx, { project_id: projectId, team_id: teamId })
  return found(row)
}

/**
 * The project and the team's role in it, locked after the row `team`, in the order of deleteUser. The project is locked as the
 * triggers of memberships lock it, before a foreign key shares the lock.
 */
const locked = (p: Placeholders<typeof key> & ContextPlaceholders): SQL => sql`
  project as materialized (
    select * from projects project
    where project.id = ${p.project_id} and ${allowsProject('project.see', p, project)} and exists (select from team)
    for update
  ), current as materialized (
    select * from project_teams current
    where current.project_id = (select id from project) and current.team_id = ${p.team_id} for update
  )`

// The members of the team are locked before the team, in the order of deleteUser.
const set = query('project_teams.set', { ...key, role: 'text' }, changedMemberColumns, (p) => {
  const { columns, values } = insertion<'project_teams'>({
    project_id: p.project_id,
    team_id: p.team_id,
    role: p.role,
  })
  return sql`
      with people as materialized (
        select from users where id in (
          select user_id from team_members join teams team on team.id = team_id
          where team.id = ${p.team_id} and ${allowsTeam('team.see', p, team)})
        order by id for key share
      ), team as materialized (
        select * from teams team
        where team.id = ${p.team_id} and ${allowsTeam('team.see', p, team)} and (select count(*) from people) is not null
        for no key update
      ), ${locked(p)}, checked as (
        select ${checkedOutcome(p, {
          allowed: allowsProject('project.manage', p, project),
          etag: sql`${currentVersion}::text`,
        })} as outcome
        from project left join current on true
      ), changed as (
        insert into project_teams as stored (${columns}) select ${values} from checked where outcome = 'done'
        on conflict (project_id, team_id) do update set role = excluded.role
        where ${stillMeetsConditions(p, storedEtag)} returning *
      )
      select ${outcomeOfUpsert(sql`changed.version is not null`)} as outcome, ${projectTeamJson(sql`changed`, sql`(select name from team)`)} as json, changed.version,
        not exists (select from current) as is_new
      from checked left join changed on true`
})

/** A role to give to a team. */
interface ProjectTeamChange extends ProjectTeamKey {
  readonly role: ProjectRole
}

/** Adds a team that the caller sees to a project, or changes its role. Demoting the last manager violates projects_have_manager. */
export const setProjectTeam = async (
  ctx: OpContext,
  { projectId, teamId, role }: ProjectTeamChange,
): Promise<Outcome<ChangedMember>> => {
  const [row] = await set(ctx, { project_id: projectId, team_id: teamId, role })
  return readChangedRow(readOutcome(row))
}

const remove = query(
  'project_teams.delete',
  key,
  { outcome: 'text' },
  (p) => sql`
    with team as materialized (
      select id from teams
      where id = ${p.team_id}
        and exists (select from project_teams where project_id = ${p.project_id} and team_id = ${p.team_id})
      for no key update
    ), ${locked(p)}, checked as (
      select ${checkedOutcome(p, {
        allowed: allowsProject('project.manage', p, project),
        etag: sql`${currentVersion}::text`,
      })} as outcome
      from project join current on true
    ), deleted as (
      delete from project_teams shared using checked
      where shared.project_id = ${p.project_id} and shared.team_id = ${p.team_id} and checked.outcome = 'done'
    )
    select outcome from checked`,
)

/** Removes a team from a project. Removing the last manager violates projects_have_manager. */
export const deleteProjectTeam = async (
  ctx: OpContext,
  { projectId, teamId }: ProjectTeamKey,
): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { project_id: projectId, team_id: teamId })
  return readOutcome(row)
}

/** A page of the teams of a project, if the caller can see it. */
export const selectProjectTeams = async (
  ctx: OpContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const id = parameter('project_id', 'uuid')
  const teams = await selectPage(
    ctx.db,
    {
      name: 'project_teams',
      from: sql`${teamsOf(id)} item`,
      branches: (caller) => onlyBranch(seesProject(caller, id)),
      values: { project_id: projectId },
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => projectTeamJson(row, sql`${row}.name`),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(teams, () => isProjectVisible(ctx, projectId))
}
