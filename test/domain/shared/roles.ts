import t from 'tap'
import { type Principal, relationsToTeam, shellPrincipal } from '../../../src/domain/shared/permissions.ts'
import { isHigherRole } from '../../../src/domain/shared/project-roles.ts'

t.test('a role is higher than those that it includes, and than none', async (t) => {
  for (const [role, other, expected] of [
    ['viewer', null, true],
    ['viewer', 'viewer', false],
    ['editor', 'viewer', true],
    ['viewer', 'editor', false],
    ['manager', 'editor', true],
    ['commenter', 'manager', false],
  ] as const)
    t.equal(isHigherRole(role, other), expected, `${role} and ${other}`)
})

t.test('relations to a team', async (t) => {
  const member: Principal = { ...shellPrincipal, role: 'member' }
  for (const [principal, role, shares_project, expected] of [
    [member, null, false, []],
    [member, 'member', false, ['member']],
    [member, 'manager', false, ['member', 'manager']],
    [member, null, true, ['shares_project']],
    [shellPrincipal, null, false, ['admin']],
    [shellPrincipal, 'member', true, ['admin', 'member', 'shares_project']],
  ] as const)
    t.strictSame(relationsToTeam(principal, { role, shares_project }), expected)
})
