import type { TeamChange } from '../../domain/projects/team-rules.ts'
import type { TeamRole } from '../../domain/shared/team-roles.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { firstRow, rowLock } from '../statements/row-statements.ts'
import { lockUser } from '../shared/lock-member.ts'
import { expectTeamManagers, grantAccess, lockProjectsToClose } from './memberships.ts'
import { and, eq, isNull, sql } from '../schema/drizzle.ts'
import { teamMembers, teams, users } from '../schema/tables.ts'
import { projectsOfTeam } from './teams.ts'

/** Memberships in teams that the claims of an identity provider cause. Their source is the issuer. */

/** The membership of a user in a team. */
export interface SourcedMembership {
  readonly team: string
  readonly role: TeamRole
  /** Null if a person made it. */
  readonly source: string | null
}

const selectOfUser = builtStatement('team_members.select_of_user', { user_id: 'uuid' }, (db, p) =>
  db
    .select({ team: teamMembers.team_id, role: teamMembers.role, source: teamMembers.source })
    .from(teamMembers)
    .where(eq(teamMembers.user_id, p.user_id)),
)

/** The memberships of a user. */
export const membershipsOf = async (
  { db }: StatementContext,
  userId: string,
): Promise<readonly SourcedMembership[]> => selectOfUser(db, { user_id: userId })

const lockTeam = rowLock('teams.lock_for_source', teams, 'no key update')

const key = { team_id: 'uuid', user_id: 'uuid' } as const

const isKey = (p: Placeholders<typeof key>) =>
  and(eq(teamMembers.team_id, p.team_id), eq(teamMembers.user_id, p.user_id))

const selectFacts = builtStatement('team_members.select_sourced', key, (db, p) =>
  db
    .select({ role: teamMembers.role, source: teamMembers.source })
    .from(teams)
    .innerJoin(users, and(eq(users.id, p.user_id), isNull(users.deleted_at)))
    .leftJoin(teamMembers, and(eq(teamMembers.team_id, teams.id), eq(teamMembers.user_id, users.id)))
    .where(eq(teams.id, p.team_id)),
)

const insert = builtStatement(
  'team_members.insert_sourced',
  { ...key, role: 'text', source: 'text' },
  (db, p) =>
    db.insert(teamMembers).values({ team_id: p.team_id, user_id: p.user_id, role: p.role, source: p.source }),
)

const update = builtStatement('team_members.update_sourced', { ...key, role: 'text' }, (db, p) =>
  db
    .update(teamMembers)
    .set({ role: p.role, version: sql`${teamMembers.version} + 1` })
    .where(isKey(p)),
)

const remove = builtStatement('team_members.delete_sourced', key, (db, p) =>
  db.delete(teamMembers).where(isKey(p)),
)

/**
 * Changes the membership of a user in a team, unless a person has made one meanwhile. False if there is no such team.
 *
 * @throws LastManager when nobody else manages the team or one of its projects
 */
export const applyTeamChange = async (
  tx: TransactionContext,
  { userId, source }: { readonly userId: string; readonly source: string },
  { team, role }: TeamChange,
): Promise<boolean> => {
  const ids = { team_id: team, user_id: userId }
  const { rows, projects } = await pipeline(tx.db, {
    user: () => lockUser(tx.db, { id: userId }),
    team: () => lockTeam(tx.db, { id: team }),
    rows: () => selectFacts(tx.db, ids),
    projects: () => projectsOfTeam(tx, team),
  })
  const present = firstRow(rows)
  if (present === null) return false
  if (present.role !== null && present.source !== source) return true
  if (present.role !== null && role !== null) {
    await pipeline(tx.db, {
      member: () => update(tx.db, { ...ids, role }),
      managers: () => expectTeamManagers(tx, [team]),
    })
    return true
  }
  await pipeline(tx.db, {
    projects: () => lockProjectsToClose(tx, projects),
    remove: () => (role === null ? remove(tx.db, ids) : insert(tx.db, { ...ids, role, source })),
    access: () => grantAccess(tx, { projects, users: [userId] }),
    managers: () => role === null && expectTeamManagers(tx, [team]),
  })
  return true
}
