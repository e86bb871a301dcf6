import type { MemberExpansion } from '../domain/expansions.ts'
import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { foldSearch } from '../domain/text.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsTeam, allowsTeamMember, allowsUser, type CallerPlaceholders } from './access/permissions.ts'
import { nameContains } from './engine/conditions.ts'
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
  visibilityCheck,
} from './lists/list.ts'
import { type ChangedMember, changedMemberColumns, type MemberRow } from './members.ts'
import { teamMemberJson } from './read-models.ts'
import { columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { foldedNames } from './users.ts'

/** A team, and a user who may be its member. */
export interface TeamMemberKey {
  readonly teamId: string
  readonly userId: string
}

/** The roles in a team. */
export type TeamRole = 'member' | 'manager'

const key = { team_id: 'uuid', user_id: 'uuid' } as const
const team = sql.raw('team')
const own = sql.raw('own')
const ownVersion = columnsOf<'team_members'>(own).version
const storedEtag = sql`${columnsOf<'team_members'>(sql`stored`).version}::text`

/** The members of a team, with their names. */
const membersOf = (teamId: SQL): SQL => sql`(
  select member.user_id as id, member.*, person.username, person.display_name
  from team_members member join users person on person.id = member.user_id and ${columnsOf<'users'>(sql`person`).deleted_at} is null
  where member.team_id = ${teamId})`

/** Whether the caller sees the team. Not correlated to a row, so that a list evaluates it once. */
const seesTeam = (caller: CallerPlaceholders, teamId: SQL): SQL => sql`exists (
  select from teams team where team.id = ${teamId} and ${allowsTeam('team.see', caller, team)})`

const select = query(
  'team_members.select',
  key,
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${teamMemberJson(sql`member`, [], p)} as json, member.version
    from ${membersOf(p.team_id)} member where member.id = ${p.user_id} and ${seesTeam(p, p.team_id)}`,
)

/** One member, if the caller can see the team. */
export const selectTeamMember = async (
  ctx: OpContext,
  { teamId, userId }: TeamMemberKey,
): Promise<Outcome<MemberRow>> => {
  const [row] = await select(ctx, { team_id: teamId, user_id: userId })
  return found(row)
}

/** The user, the team and the membership, locked in the order of deleteUser. Triggers then lock the projects of the team. */
const locked = (p: Placeholders<typeof key> & ContextPlaceholders): SQL => sql`
  person as materialized (
    select person.id from users person
    where person.id = ${p.user_id} and ${allowsUser('user.see', p, sql`person`)} for key share
  ), team as materialized (
    select * from teams team
    where team.id = ${p.team_id} and ${allowsTeam('team.see', p, team)} and exists (select from person)
    for no key update
  ), own as materialized (
    select * from team_members own
    where own.team_id = (select id from team) and own.user_id = ${p.user_id} for update
  )`

const set = query('team_members.set', { ...key, role: 'text' }, changedMemberColumns, (p) => {
  const { columns, values } = insertion<'team_members'>({
    team_id: p.team_id,
    user_id: p.user_id,
    role: p.role,
  })
  return sql`
      with ${locked(p)}, checked as (
        select ${checkedOutcome(p, {
          allowed: allowsTeam('team.manage', p, team),
          etag: sql`${ownVersion}::text`,
        })} as outcome
        from team left join own on true
      ), changed as (
        insert into team_members as stored (${columns}) select ${values} from checked where outcome = 'done'
        on conflict (team_id, user_id) do update set role = excluded.role
        where ${stillMeetsConditions(p, storedEtag)} returning *
      )
      select ${outcomeOfUpsert(sql`changed.version is not null`)} as outcome, ${teamMemberJson(sql`changed`, [], p)} as json, changed.version,
        not exists (select from own) as is_new
      from checked left join changed on true`
})

/** A role to give to a member. */
interface TeamMemberChange extends TeamMemberKey {
  readonly role: TeamRole
}

/** Adds a user to a team, or changes their role in it. Demoting the last manager violates teams_have_manager. */
export const setTeamMember = async (
  ctx: OpContext,
  { teamId, userId, role }: TeamMemberChange,
): Promise<Outcome<ChangedMember>> => {
  const [row] = await set(ctx, { team_id: teamId, user_id: userId, role })
  return readChangedRow(readOutcome(row))
}

const remove = query(
  'team_members.delete',
  key,
  { outcome: 'text' },
  (p) => sql`
    with ${locked(p)}, checked as (
      select ${checkedOutcome(p, {
        allowed: allowsTeamMember('team_member.remove', p, team, p.user_id),
        etag: sql`${ownVersion}::text`,
      })} as outcome
      from team join own on true
    ), deleted as (
      delete from team_members member using checked
      where member.team_id = ${p.team_id} and member.user_id = ${p.user_id} and checked.outcome = 'done'
    )
    select outcome from checked`,
)

/**
 * Removes a member from a team. Removing the last manager violates teams_have_manager; if a project has no other manager, it
 * violates projects_have_manager.
 */
export const deleteTeamMember = async (
  ctx: OpContext,
  { teamId, userId }: TeamMemberKey,
): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { team_id: teamId, user_id: userId })
  return readOutcome(row)
}

const isTeamVisible = visibilityCheck('team_members.check_team', seesTeam)

/** Filters of a list of members. */
export interface TeamMemberFilter {
  /** A part of the username or the display name. */
  readonly q?: string
  readonly expand?: readonly MemberExpansion[]
}

/** A page of the members of a team, if the caller can see it. */
export const selectTeamMembers = async (
  ctx: OpContext<Principal>,
  teamId: string,
  { q, expand = [] }: TeamMemberFilter,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const id = parameter('team_id', 'uuid')
  const members = await selectPage(
    ctx.db,
    {
      name: ['team_members', ...expand].join('_'),
      from: sql`${membersOf(id)} item`,
      branches: (caller) => onlyBranch(seesTeam(caller, id)),
      values: { team_id: teamId },
      filters: q === undefined ? [] : [nameContains(foldedNames(sql`item`), foldSearch(q))],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row, caller) => teamMemberJson(row, expand, caller),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(members, () => isTeamVisible(ctx, teamId))
}
