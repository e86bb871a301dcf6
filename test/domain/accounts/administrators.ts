import t from 'tap'
import { leavesNoAdministrator, mayRemoveAdministrator } from '../../../src/domain/accounts/administrators.ts'

const admin = { role: 'admin', is_disabled: false } as const
const disabled = { role: 'admin', is_disabled: true } as const
const member = { role: 'member', is_disabled: false } as const

t.test('whether an installation is left without an administrator', async (t) => {
  for (const [before, after, isLeft] of [
    [admin, admin, false],
    [admin, member, true],
    [admin, disabled, true],
    [admin, null, true],
    // Who does not administer it leaves nothing.
    [disabled, member, false],
    [disabled, null, false],
    [member, null, false],
    [member, admin, false],
  ] as const) {
    const what = JSON.stringify([before, after])
    t.equal(leavesNoAdministrator({ ...before, has_other_administrators: false }, after), isLeft, what)
    t.equal(leavesNoAdministrator({ ...before, has_other_administrators: true }, after), false, what)
  }
})

t.test('whether a change may remove an administrator', async (t) => {
  for (const change of [{ role: 'member' }, { is_disabled: true }] as const)
    t.ok(mayRemoveAdministrator(change))
  for (const change of [{}, { role: 'admin' }, { is_disabled: false }] as const)
    t.notOk(mayRemoveAdministrator(change))
})
