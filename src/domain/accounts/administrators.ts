import type { Role } from '../shared/permissions.ts'

/** What decides whether a user administers the installation. */
interface Standing {
  readonly role: Role
  readonly is_disabled: boolean
}

const administers = ({ role, is_disabled }: Standing): boolean => role === 'admin' && !is_disabled

/** Whether a change takes an administrator away if it is one of an administrator. */
export const mayRemoveAdministrator = ({ role, is_disabled }: Partial<Standing>): boolean =>
  role === 'member' || is_disabled === true

/** Whether a user is the only administrator, and would not be one `after` the change; null if they are deleted. */
export const leavesNoAdministrator = (
  before: Standing & { readonly has_other_administrators: boolean },
  after: Standing | null,
): boolean =>
  administers(before) && !before.has_other_administrators && (after === null || !administers(after))
