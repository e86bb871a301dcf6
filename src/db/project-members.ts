import { found, type Outcome } from '../domain/outcome.ts'
import type { MemberExpansion } from '../domain/expansions.ts'
import type { Principal } from '../domain/permissions.ts'
import type { ProjectRole } from '../domain/project-roles.ts'
import { foldSearch } from '../domain/text.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsProject, allowsProjectMember, allowsUser, seesProject } from './access/permissions.ts'
import { conditionsOf, filterOneOf, nameContains } from './engine/conditions.ts'
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
import { projectMemberJson } from './read-models.ts'
import { columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { foldedNames } from './users.ts'

/** A project, and a user who may be its member. */
export interface ProjectMemberKey {
  readonly projectId: string
  readonly userId: string
}

const key = { project_id: 'uuid', user_id: 'uuid' } as const
const project = sql.raw('project')
const own = sql.raw('own')
const ownVersion = columnsOf<'project_members'>(own).version
const storedEtag = sql`${columnsOf<'project_members'>(sql`stored`).version}::text`
/** The version of a member: 0 with access only through a team; null without access. */
const memberVersion = sql`coalesce(${ownVersion}, (select 0 from access))`

/** The members of a project: rows of `memberships`, with the user's own role in addition. */
const membersOf = (projectId: SQL): SQL => sql`(
  select membership.user_id as id, membership.user_id, membership.project_id, membership.role, membership.created_at,
    own.role as direct_role, coalesce(${ownVersion}, 0) as version, person.username, person.display_name
  from memberships membership join users person on person.id = membership.user_id
    left join project_members own on own.project_id = membership.project_id and own.user_id = membership.user_id
  where membership.project_id = ${projectId})`

const select = query(
  'project_members.select',
  key,
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${projectMemberJson(sql`member`, [], p)} as json, member.version
    from ${membersOf(p.project_id)} member where member.id = ${p.user_id} and ${seesProject(p, p.project_id)}`,
)

/** One member, if the caller can see the project. */
export const selectProjectMember = async (
  ctx: OpContext,
  { projectId, userId }: ProjectMemberKey,
): Promise<Outcome<MemberRow>> => {
  const [row] = await select(ctx, { project_id: projectId, user_id: userId })
  return found(row)
}

/**
 * The user, the project, the user's own role and their access, locked in the order of deleteUser: a user before projects. The
 * project is locked as the triggers of memberships lock it, before a foreign key shares the lock. The lock on the access skips
 * access that ended while the statement waited.
 */
const locked = (p: Placeholders<typeof key> & ContextPlaceholders): SQL => sql`
  person as materialized (
    select person.id from users person
    where person.id = ${p.user_id} and ${allowsUser('user.see', p, sql`person`)} for key share
  ), project as materialized (
    select * from projects project
    where project.id = ${p.project_id} and ${allowsProject('project.see', p, project)} and exists (select from person)
    for update
  ), own as materialized (
    select * from project_members own
    where own.project_id = (select id from project) and own.user_id = ${p.user_id} for update
  ), access as materialized (
    select created_at from memberships
    where project_id = (select id from project) and user_id = ${p.user_id} for key share
  )`

const set = query('project_members.set', { ...key, role: 'text' }, changedMemberColumns, (p) => {
  const { columns, values } = insertion<'project_members'>({
    project_id: p.project_id,
    user_id: p.user_id,
    role: p.role,
  })
  const ofTeams = sql`
      select team.role from project_teams team join team_members member on member.team_id = team.team_id
      where team.project_id = ${p.project_id} and member.user_id = ${p.user_id}`
  return sql`
      with ${locked(p)}, checked as (
        select ${checkedOutcome(p, {
          allowed: allowsProject('project.manage', p, project),
          etag: sql`${memberVersion}::text`,
        })} as outcome
        from project left join own on true
      ), changed as (
        insert into project_members as stored (${columns}) select ${values} from checked where outcome = 'done'
        on conflict (project_id, user_id) do update set role = excluded.role
        where ${stillMeetsConditions(p, storedEtag)} returning *
      ), member as (
        select changed.user_id, changed.role as direct_role, changed.version,
          (select role from (select changed.role union all ${ofTeams}) roles order by role_rank(role) desc limit 1) as role,
          coalesce((select created_at from access), ${columnsOf<'project_members'>(sql`changed`).created_at}) as created_at
        from changed
      )
      select ${outcomeOfUpsert(sql`member.version is not null`)} as outcome, ${projectMemberJson(sql`member`, [], p)} as json, member.version,
        not exists (select from own) and not exists (select from access) as is_new
      from checked left join member on true`
})

/** A role to give to a member. */
interface ProjectMemberChange extends ProjectMemberKey {
  readonly role: ProjectRole
}

/** Gives a user their own role in a project. Demoting the last manager violates projects_have_manager. */
export const setProjectMember = async (
  ctx: OpContext,
  { projectId, userId, role }: ProjectMemberChange,
): Promise<Outcome<ChangedMember>> => {
  const [row] = await set(ctx, { project_id: projectId, user_id: userId, role })
  return readChangedRow(readOutcome(row))
}

const remove = query(
  'project_members.delete',
  key,
  { outcome: 'text' },
  (p) => sql`
    with ${locked(p)}, checked as (
      select ${checkedOutcome(p, {
        allowed: allowsProjectMember('project_member.remove', p, project, p.user_id),
        etag: sql`${memberVersion}::text`,
        refusals: sql`when ${ownVersion} is null then 'access_through_team'`,
      })} as outcome
      from project left join own on true where ${memberVersion} is not null
    ), deleted as (
      delete from project_members member using checked
      where member.project_id = ${p.project_id} and member.user_id = ${p.user_id} and checked.outcome = 'done'
    )
    select outcome from checked`,
)

/**
 * Removes a member's own role; `access_through_team` if they have none. Removing the last manager violates
 * projects_have_manager.
 */
export const deleteProjectMember = async (
  ctx: OpContext,
  { projectId, userId }: ProjectMemberKey,
): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { project_id: projectId, user_id: userId })
  return readOutcome(row)
}

/** Filters of a list of members. */
export interface ProjectMemberFilter {
  readonly role?: readonly ProjectRole[]
  /** A part of the username or the display name. */
  readonly q?: string
  readonly expand?: readonly MemberExpansion[]
}

const filterFields = { role: filterOneOf('text', sql`item.role`) }

/** A page of the members of a project, if the caller can see it. */
export const selectProjectMembers = async (
  ctx: OpContext<Principal>,
  projectId: string,
  { q, expand = [], ...filter }: ProjectMemberFilter,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const id = parameter('project_id', 'uuid')
  const members = await selectPage(
    ctx.db,
    {
      name: ['project_members', ...expand].join('_'),
      from: sql`${membersOf(id)} item`,
      branches: (caller) => onlyBranch(seesProject(caller, id)),
      values: { project_id: projectId },
      filters: [
        ...conditionsOf(filterFields, filter),
        ...(q === undefined ? [] : [nameContains(foldedNames(sql`item`), foldSearch(q))]),
      ],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row, caller) => projectMemberJson(row, expand, caller),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(members, () => isProjectVisible(ctx, projectId))
}
