import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import { foldSearch } from '../domain/text.ts'
import { allowsTeam, teamBranches } from './access/permissions.ts'
import { nameContains } from './engine/conditions.ts'
import type { OpContext } from './engine/context.ts'
import { creation, expectCreated } from './engine/creation.ts'
import type { Created } from './engine/idempotency.ts'
import { checkedOutcome, readChangedRow, readOutcome } from './engine/outcome.ts'
import { query } from './engine/statement.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { roleInTeam, teamJson } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'

/** A team as JSON text, its version, and the caller's role in it. */
export interface TeamRow {
  readonly json: string
  readonly version: number
  readonly role: string | null
}

const team = sql.raw('team')
const target = sql.raw('target')

const selectOne = query(
  'teams.select',
  { id: 'uuid' },
  { json: 'text', version: 'int', role: 'text?' },
  (p) => sql`
    select ${teamJson(team, p)} as json, version, ${roleInTeam(team, p)} as role
    from teams team where id = ${p.id} and ${allowsTeam('team.see', p, team)}`,
)

/** One team, if the caller can see it. */
export const selectTeam = async (ctx: OpContext, id: string): Promise<Outcome<TeamRow>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

const insert = creation('teams.insert', { name: 'text' }, { json: 'text' }, (p) => {
  const { columns, values } = insertion<'teams'>({ id: p.id, name: p.name })
  const member = insertion<'team_members'>({ team_id: sql`id`, user_id: p.caller, role: sql`'manager'` })
  return {
    parts: sql`
      team as (insert into teams (${columns}) values (${values}) returning *),
      member as (insert into team_members (${member.columns}) select ${member.values} from team),
      created as (select id, ${teamJson(team, p, sql`'manager'`)} as json from team)`,
    select: sql`select json from created`,
  }
})

/** Creates a team, which the caller manages. */
export const insertTeam = (ctx: OpContext<Principal>, name: string): Promise<Created> =>
  insert(ctx, () => ({ name })).then(expectCreated)

const update = query(
  'teams.update',
  { id: 'uuid', name: 'text?' },
  { outcome: 'text', json: 'text?', version: 'int?', role: 'text?' },
  (p) => sql`
    with target as (
      select * from teams team where id = ${p.id} and ${allowsTeam('team.see', p, team)} for no key update
    ), checked as (
      select id, ${checkedOutcome(p, {
        allowed: allowsTeam('team.manage', p, target),
        etag: sql`${columnsOf<'teams'>(target).version}::text`,
      })} as outcome from target
    ), changed as (
      update teams team set ${assignments<'teams'>({ name: sql`coalesce(${p.name}, team.name)` })}
      from checked where team.id = checked.id and checked.outcome = 'done' returning team.*
    )
    select outcome, ${teamJson(sql`changed`, p)} as json, changed.version, ${roleInTeam(sql`changed`, p)} as role
    from checked left join changed on true`,
)

/** The fields of a team to change. Absent fields are not changed. */
export interface TeamChange {
  readonly name?: string
}

/** Changes a team. */
export const updateTeam = async (
  ctx: OpContext,
  id: string,
  { name }: TeamChange,
): Promise<Outcome<TeamRow>> => {
  const [row] = await update(ctx, { id, name: name ?? null })
  return readChangedRow(readOutcome(row))
}

// The rows that refer to the team are deleted with it rather than by the foreign keys, so that the triggers compute the
// memberships of each project once, with no member of the team left.
const remove = query(
  'teams.delete',
  { id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with target as materialized (
      select * from teams team where id = ${p.id} and ${allowsTeam('team.see', p, team)} for update
    ), checked as materialized (
      select id, ${checkedOutcome(p, {
        allowed: allowsTeam('team.manage', p, target),
        etag: sql`${columnsOf<'teams'>(target).version}::text`,
      })} as outcome from target
    ), removed as materialized (
      select id from checked where outcome = 'done'
    ), locked as materialized (
      select from projects where id in (select project_id from project_teams join removed on removed.id = team_id)
      order by id for update
    ), left_projects as (
      delete from project_teams using removed where team_id = removed.id and (select count(*) from locked) is not null
    ), left_members as (
      delete from team_members using removed where team_id = removed.id and (select count(*) from locked) is not null
    ), deleted as (
      delete from teams using removed where teams.id = removed.id and (select count(*) from locked) is not null
    )
    select outcome from checked`,
)

/** Deletes a team. If it is the only manager of a project, this violates projects_have_manager. */
export const deleteTeam = async (ctx: OpContext, id: string): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id })
  return readOutcome(row)
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
  { db, principal }: OpContext<Principal>,
  filter: TeamFilter,
  page: PageRequest,
): Promise<Page> => {
  const { q } = filter
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'teams',
      from: sql`teams item`,
      branches: (caller) => teamBranches(reader.role, caller),
      filters:
        q === undefined ? [] : [nameContains(columnsOf<'teams'>(sql`item`).name_folded, foldSearch(q))],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row, caller) => teamJson(row, caller),
    },
    reader,
    page,
  )
}
