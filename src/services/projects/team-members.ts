import { last } from '../../db/engine/transaction.ts'
import type { MemberRow } from '../../db/shared/lock-member.ts'
import {
  lockTeamMember,
  removeMember,
  selectTeamMember,
  selectTeamMembers,
  setRole,
  type TeamMemberFilter,
  type TeamMemberKey,
  viewTeamMember,
} from '../../db/projects/team-members.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { TeamRole } from '../../domain/shared/team-roles.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectFound, expectMatch, expectMay, expectMayExpand, expectSeen } from '../shared/expectations.ts'
import type { ChangedMember } from './members.ts'

/** A page of the members of a team. @throws Problem 403, 404 */
export const listTeamMembers = async (
  ctx: OpContext<Principal>,
  teamId: string,
  filter: TeamMemberFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayExpand(ctx, filter)
  return expectFound(await selectTeamMembers(ctx, teamId, filter, page))
}

/** @throws Problem 404 */
export const getTeamMember = async (ctx: OpContext<Principal>, key: TeamMemberKey): Promise<MemberRow> =>
  expectFound(await selectTeamMember(ctx, key))

/** Adds a user to a team, or changes their role in it. */
export const setTeamMember = (
  ctx: OpContext<Principal>,
  key: TeamMemberKey,
  role: TeamRole,
): Promise<ChangedMember> =>
  transaction(ctx, async (tx) => {
    const locked = await lockTeamMember(tx, key)
    if (locked === null) throw problems.notFound()
    const { member } = locked
    const team = expectMay('team.manage', expectSeen('team.see', locked.team))
    expectMatch(tx, member)
    if (member.role !== role) await setRole(tx, team, member, role)
    const isNew = member.version === null
    return last(viewTeamMember(tx, key).then((row) => ({ ...row, isNew })))
  })

/** Removes a member from a team. */
export const removeTeamMember = (ctx: OpContext<Principal>, key: TeamMemberKey): Promise<void> =>
  transaction(ctx, async (tx) => {
    const locked = await lockTeamMember(tx, key)
    if (locked === null || locked.member.version === null) throw problems.notFound()
    expectSeen('team.see', locked.team)
    const member = expectMay('team_member.remove', locked.member)
    expectMatch(tx, member)
    await removeMember(tx, member)
  })
