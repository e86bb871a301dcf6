import { last } from '../../db/engine/transaction.ts'
import type { MemberRow } from '../../db/shared/lock-member.ts'
import {
  lockProjectTeam,
  type ProjectTeamKey,
  removeRole,
  selectProjectTeam,
  selectProjectTeams,
  setRole,
  viewProjectTeam,
} from '../../db/projects/member-teams.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectFound, expectMatch, expectMay, expectSeen } from '../shared/expectations.ts'
import type { ChangedMember } from './members.ts'

/** A page of the teams of a project. @throws Problem 404 */
export const listProjectTeams = async (
  ctx: OpContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Page> => expectFound(await selectProjectTeams(ctx, projectId, page))

/** @throws Problem 404 */
export const getProjectTeam = async (ctx: OpContext<Principal>, key: ProjectTeamKey): Promise<MemberRow> =>
  expectFound(await selectProjectTeam(ctx, key))

/** Adds a team to a project, or changes its role. */
export const setProjectTeam = (
  ctx: OpContext<Principal>,
  key: ProjectTeamKey,
  role: ProjectRole,
): Promise<ChangedMember> =>
  transaction(ctx, async (tx) => {
    const { team, project, ...current } = await lockProjectTeam(tx, key)
    expectSeen('team.see', team)
    const managed = expectMay('project.manage', expectSeen('project.see', project))
    expectMatch(tx, current)
    if (current.role !== role) await setRole(tx, managed, { teamId: key.teamId, role })
    const isNew = current.version === null
    return last(viewProjectTeam(tx, key).then((row) => ({ ...row, isNew })))
  })

/** Removes a team from a project. */
export const removeProjectTeam = (ctx: OpContext<Principal>, key: ProjectTeamKey): Promise<void> =>
  transaction(ctx, async (tx) => {
    const { project, ...current } = await lockProjectTeam(tx, key)
    const seen = expectSeen('project.see', project)
    if (current.version === null) throw problems.notFound()
    const managed = expectMay('project.manage', seen)
    expectMatch(tx, current)
    await removeRole(tx, managed, key.teamId)
  })
