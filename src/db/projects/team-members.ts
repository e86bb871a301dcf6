import type { MemberExpansion } from '../../domain/shared/expansions.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import type { TeamRole } from '../../domain/shared/team-roles.ts'
import { foldSearch } from '../../domain/shared/text.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsTeam, type CallerPlaceholders } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { nameContains } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter, type Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { newest, selectPageOf, visibilityCheck } from '../lists/list.ts'
import { lockUser, type MemberRow } from '../shared/lock-member.ts'
import { expectTeamManagers, grantAccess, lockProjectsToClose } from './memberships.ts'
import { teamMemberJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, isNull, type SQL, sql } from '../schema/drizzle.ts'
import { teamMembers, teams, users } from '../schema/tables.ts'
import { lockTeam, type ManagedTeam, projectsOfTeam, type TeamFacts } from './teams.ts'
import { foldedNames } from '../accounts/users.ts'

const member = aliasedTable(teamMembers, 'member')
const team = aliasedTable(teams, 'team')
const person = aliasedTable(users, 'person')

/** A team, and a user who may be its member. */
export interface TeamMemberKey {
  readonly teamId: string
  readonly userId: string
}

const key = { team_id: 'uuid', user_id: 'uuid' } as const

/** The members of a team, with their names. */
const membersOf = (teamId: SQL): SQL => sql`(
  select ${member.user_id} as id, member.*, ${person.username}, ${person.display_name}
  from team_members member join users person on ${person.id} = ${member.user_id} and ${person.deleted_at} is null
  where ${member.team_id} = ${teamId})`

/** Whether the caller sees the team. Not correlated to a row, so that a list evaluates it once. */
const seesTeam = (caller: CallerPlaceholders, teamId: SQL): SQL => sql`exists (
  select from teams team where ${team.id} = ${teamId} and ${allowsTeam('team.see', caller, team)})`

const select = query(
  'team_members.select',
  key,
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${teamMemberJson(member, [], p)} as json, ${member.version}
    from ${membersOf(p.team_id)} member where ${member}.id = ${p.user_id} and ${seesTeam(p, p.team_id)}`,
)

/** One member, if the caller can see the team. */
export const selectTeamMember = async (
  ctx: StatementContext,
  { teamId, userId }: TeamMemberKey,
): Promise<MemberRow | null> => firstRow(await select(ctx, { team_id: teamId, user_id: userId }))

/** The membership of a user in a team. */
export interface TeamMemberFacts {
  readonly team_id: string
  readonly user_id: string
  /** Null for no member. */
  readonly role: TeamRole | null
  readonly version: number | null
  /** The issuer whose claims made the membership; null if a person did. */
  readonly source: string | null
  /** The ids of the projects that the team is in. */
  readonly projects: readonly string[]
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const selectFacts = builtStatement('team_members.select_facts', key, (db, p) =>
  db
    .select({ role: teamMembers.role, version: teamMembers.version, source: teamMembers.source })
    .from(users)
    .leftJoin(teamMembers, and(eq(teamMembers.user_id, users.id), eq(teamMembers.team_id, p.team_id)))
    .where(and(eq(users.id, p.user_id), isNull(users.deleted_at))),
)

/** Locks a user and a team, and reads them, and the membership, under the locks. Null unless there are both. */
export const lockTeamMember = async (
  tx: TransactionContext<Principal>,
  { teamId, userId }: TeamMemberKey,
): Promise<{ readonly team: TeamFacts; readonly member: TeamMemberFacts } | null> => {
  const keys = { team_id: teamId, user_id: userId }
  const { team, facts, projects } = await pipeline(tx.db, {
    user: () => lockUser(tx.db, { id: userId }),
    team: () => lockTeam(tx, teamId, 'change'),
    facts: () => selectFacts(tx.db, keys),
    projects: () => projectsOfTeam(tx, teamId),
  })
  const [row] = facts
  if (team === null || row === undefined) return null
  const self: readonly Relation[] = userId === tx.principal.userId ? ['self'] : []
  return { team, member: { ...keys, ...row, projects, relations: [...team.relations, ...self] } }
}

const insert = builtStatement('team_members.insert', { ...key, role: 'text' }, (db, p) =>
  db.insert(teamMembers).values({ team_id: p.team_id, user_id: p.user_id, role: p.role }),
)

const isKey = (p: Placeholders<typeof key>) =>
  and(eq(teamMembers.team_id, p.team_id), eq(teamMembers.user_id, p.user_id))

const update = builtStatement('team_members.update', { ...key, role: 'text' }, (db, p) =>
  db
    .update(teamMembers)
    // From then on, a person has made it.
    .set({ role: p.role, source: null, version: sql`${teamMembers.version} + 1` })
    .where(isKey(p)),
)

/**
 * Adds a user to a team, or changes the role of a member, which has no effect on projects.
 *
 * @throws LastManager when the member was its last manager
 */
export const setRole = async (
  tx: TransactionContext,
  { id: team_id }: ManagedTeam,
  member: TeamMemberFacts,
  role: TeamRole,
): Promise<void> => {
  const { user_id, projects } = member
  if (member.role === null)
    await pipeline(tx.db, {
      projects: () => lockProjectsToClose(tx, projects),
      member: () => insert(tx.db, { team_id, user_id, role }),
      access: () => grantAccess(tx, { projects, users: [user_id] }),
    })
  else
    await pipeline(tx.db, {
      member: () => update(tx.db, { team_id, user_id, role }),
      managers: () => expectTeamManagers(tx, [team_id]),
    })
}

const remove = builtStatement('team_members.delete', key, (db, p) => db.delete(teamMembers).where(isKey(p)))

/**
 * Removes a member from a team.
 *
 * @throws LastManager when nobody else manages the team or one of its projects
 */
export const removeMember = async (
  tx: TransactionContext,
  { team_id, user_id, projects }: Authorized<'team_member.remove', TeamMemberFacts>,
): Promise<void> => {
  await pipeline(tx.db, {
    projects: () => lockProjectsToClose(tx, projects),
    member: () => remove(tx.db, { team_id, user_id }),
    access: () => grantAccess(tx, { projects, users: [user_id] }),
    managers: () => expectTeamManagers(tx, [team_id]),
  })
}

/** A member that the transaction has written. The lock of the team keeps it visible. */
export const viewTeamMember = async (
  tx: TransactionContext,
  { teamId, userId }: TeamMemberKey,
): Promise<MemberRow> => expectRow(await select(tx, { team_id: teamId, user_id: userId }))

const isTeamVisible = visibilityCheck('team_members.check_team', seesTeam)

/** Filters of a list of members. */
export interface TeamMemberFilter {
  /** A part of the username or the display name. */
  readonly q?: string
  readonly expand?: readonly MemberExpansion[]
}

/** A page of the members of a team, if the caller can see it. */
export const selectTeamMembers = (
  ctx: StatementContext<Principal>,
  teamId: string,
  { q, expand = [] }: TeamMemberFilter,
  page: PageRequest,
): Promise<Page | null> => {
  const id = parameter('team_id', 'uuid')
  return selectPageOf(
    ctx,
    {
      name: ['team_members', ...expand].join('_'),
      table: teamMembers,
      from: sql`${membersOf(id)} item`,
      branches: (caller) => onlyBranch(seesTeam(caller, id)),
      values: { team_id: teamId },
      filters: q === undefined ? [] : [nameContains(foldedNames(aliasedTable(users, 'item')), foldSearch(q))],
      ...newest,
      json: (row, caller) => teamMemberJson(row, expand, caller),
    },
    page,
    () => isTeamVisible(ctx, teamId),
  )
}
