import { last } from '../../db/engine/transaction.ts'
import type { MemberRow } from '../../db/shared/lock-member.ts'
import {
  lockProjectMember,
  type ProjectMemberFilter,
  type ProjectMemberKey,
  removeRole,
  selectProjectMember,
  selectProjectMembers,
  setRole,
  viewProjectMember,
} from '../../db/projects/members.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectFound, expectMatch, expectMay, expectMayExpand, expectSeen } from '../shared/expectations.ts'

/** A member after a change, and whether they were no member before. */
export interface ChangedMember extends MemberRow {
  readonly isNew: boolean
}

/** A page of the members of a project. @throws Problem 403, 404 */
export const listProjectMembers = async (
  ctx: OpContext<Principal>,
  projectId: string,
  filter: ProjectMemberFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayExpand(ctx, filter)
  return expectFound(await selectProjectMembers(ctx, projectId, filter, page))
}

/** @throws Problem 404 */
export const getProjectMember = async (
  ctx: OpContext<Principal>,
  key: ProjectMemberKey,
): Promise<MemberRow> => expectFound(await selectProjectMember(ctx, key))

/** Gives a user their own role in a project. */
export const setProjectMember = (
  ctx: OpContext<Principal>,
  key: ProjectMemberKey,
  role: ProjectRole,
): Promise<ChangedMember> =>
  transaction(ctx, async (tx) => {
    const locked = await lockProjectMember(tx, key)
    if (locked === null) throw problems.notFound()
    const { member } = locked
    const project = expectMay('project.manage', expectSeen('project.see', locked.project))
    expectMatch(tx, member)
    if (member.role !== role) await setRole(tx, project, { userId: key.userId, role })
    const isNew = member.version === null
    return last(viewProjectMember(tx, key).then((row) => ({ ...row, isNew })))
  })

/** Removes the role that a member has themselves, and not through a team. */
export const removeProjectMember = (ctx: OpContext<Principal>, key: ProjectMemberKey): Promise<void> =>
  transaction(ctx, async (tx) => {
    const locked = await lockProjectMember(tx, key)
    if (locked === null || locked.member.version === null) throw problems.notFound()
    expectSeen('project.see', locked.project)
    const member = expectMay('project_member.remove', locked.member)
    expectMatch(tx, member)
    if (member.role === null) throw problems.accessThroughTeam()
    await removeRole(tx, member)
  })
