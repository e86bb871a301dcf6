import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  listReader,
  type Principal,
  type Relation,
  relationsToTeam,
} from '../../domain/shared/permissions.ts'
import { foldSearch } from '../../domain/shared/text.ts'
import { allowsTeam, teamBranches } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { nameContains } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowDeletion, rowLock } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { grantAccess, lockProjectsToClose } from './memberships.ts'
import { roleInTeam, teamJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, sql } from '../schema/drizzle.ts'
import { memberships, projectTeams, teamMembers, teams } from '../schema/tables.ts'
import { touched } from '../shared/touch.ts'

const item = aliasedTable(teams, 'item')

/** A team as JSON text, its version, and the caller's role in it. */
export interface TeamRow {
  readonly json: string
  readonly version: number
  readonly role: string | null
}

const team = aliasedTable(teams, 'team')

const selectOne = query(
  'teams.select',
  { id: 'uuid' },
  { json: 'text', version: 'int', role: 'text?' },
  (p) => sql`
    select ${teamJson(team, p)} as json, ${team.version}, ${roleInTeam(team, p)} as role
    from teams team where ${team.id} = ${p.id} and ${allowsTeam('team.see', p, team)}`,
)

/** One team, if the caller can see it. */
export const selectTeam = async (ctx: StatementContext, id: string): Promise<TeamRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** A team that the transaction has written. Its lock keeps it visible. */
export const viewTeam = async (tx: TransactionContext, id: string): Promise<TeamRow> =>
  expectRow(await selectOne(tx, { id }))

const insert = builtStatement('teams.insert', { id: 'uuid', name: 'text' }, (db, p) =>
  db.insert(teams).values({ id: p.id, name: p.name }),
)

const insertManager = builtStatement(
  'team_members.insert_manager',
  { team_id: 'uuid', user_id: 'uuid' },
  (db, p) => db.insert(teamMembers).values({ team_id: p.team_id, user_id: p.user_id, role: 'manager' }),
)

/** Inserts a team, which the caller manages. */
export const insertTeam = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  name: string,
): Promise<void> => {
  await pipeline(db, {
    team: () => insert(db, { id, name }),
    manager: () => insertManager(db, { team_id: id, user_id: principal.userId }),
  })
}

/** What a change of a team depends on. */
export interface TeamFacts {
  readonly id: string
  readonly name: string
  readonly version: number
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

/** A team that the caller was found to manage. */
export type ManagedTeam = Authorized<'team.manage', TeamFacts>

const lockToChange = rowLock('teams.lock_to_change', teams, 'no key update')

const lockToDelete = rowLock('teams.lock_to_delete', teams, 'update')

const selectFacts = builtStatement('teams.select_facts', { id: 'uuid', caller: 'uuid' }, (db, p) =>
  db
    .select({
      id: teams.id,
      name: teams.name,
      version: teams.version,
      role: teamMembers.role,
      shares_project: sql<boolean>`exists (
        select from project_teams join memberships on ${memberships.project_id} = ${projectTeams.project_id}
        where ${projectTeams.team_id} = ${teams.id} and ${memberships.user_id} = ${p.caller})`,
    })
    .from(teams)
    .leftJoin(teamMembers, and(eq(teamMembers.team_id, teams.id), eq(teamMembers.user_id, p.caller)))
    .where(eq(teams.id, p.id)),
)

/** Locks a team, and reads it under the lock. One transaction at a time changes its members and the projects that it is in. */
export const lockTeam = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  purpose: 'change' | 'delete',
): Promise<TeamFacts | null> => {
  const lock = purpose === 'change' ? lockToChange : lockToDelete
  const { rows } = await pipeline(db, {
    lock: () => lock(db, { id }),
    rows: () => selectFacts(db, { id, caller: principal.userId }),
  })
  const [row] = rows
  if (row === undefined) return null
  const { role, shares_project, ...facts } = row
  return { ...facts, relations: relationsToTeam(principal, { role, shares_project }) }
}

const selectProjects = builtStatement('teams.select_projects', { id: 'uuid' }, (db, p) =>
  db.select({ id: projectTeams.project_id }).from(projectTeams).where(eq(projectTeams.team_id, p.id)),
)

/** The ids of the projects that a locked team is in. */
export const projectsOfTeam = async ({ db }: TransactionContext, id: string): Promise<readonly string[]> =>
  (await selectProjects(db, { id })).map((project) => project.id)

const update = builtStatement('teams.update', { id: 'uuid', name: 'text' }, (db, p) =>
  db
    .update(teams)
    .set({ name: p.name, ...touched(teams) })
    .where(eq(teams.id, p.id)),
)

/** Renames a team. */
export const rename = async (
  { db }: TransactionContext,
  { id }: ManagedTeam,
  name: string,
): Promise<void> => {
  await update(db, { id, name })
}

const remove = rowDeletion('teams.delete', teams)

/**
 * Deletes a team, and ends the access to its projects that its members have through it.
 *
 * @throws LastManager when nobody else manages one of the projects
 */
export const removeTeam = async (
  tx: TransactionContext,
  { id }: ManagedTeam,
  projects: readonly string[],
): Promise<void> => {
  await pipeline(tx.db, {
    projects: () => lockProjectsToClose(tx, projects),
    team: () => remove(tx.db, { id }),
    access: () => grantAccess(tx, { projects, users: null }),
  })
}

/** Filters of a list of teams. */
export interface TeamFilter {
  /** A part of the name. */
  readonly q?: string
  /** All teams of the installation; administrators only. */
  readonly all?: boolean
}

/** A page of the teams that the caller sees. */
export const selectTeams = (
  { db, principal }: StatementContext<Principal>,
  filter: TeamFilter,
  page: PageRequest,
): Promise<Page> => {
  const { q } = filter
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'teams',
      table: teams,
      branches: (caller) => teamBranches(reader.role, caller),
      filters: q === undefined ? [] : [nameContains(item.name_folded, foldSearch(q))],
      ...newest,
      json: teamJson,
    },
    reader,
    page,
  )
}
