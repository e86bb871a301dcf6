/**
 * Who may do what, as data. Each key is the `x-permission` of an operation or a finer rule within one; each value
 * names the relations to the resource of which one is enough. `src/db/permissions.ts` compiles them into WHERE.
 */
export const permissions = {
  anyone: ['anyone'],
  'session.end': ['signed_in'],
  'user.see': ['signed_in'],
  'user.see_email': ['self', 'admin'],
  'user.create': ['admin'],
  'user.change': ['self', 'admin'],
  'user.change_role': ['admin'],
  'user.delete': ['self', 'admin'],
  'task.see': ['owner', 'assignee', 'admin'],
  'task.create': ['signed_in'],
  'task.create_for_another': ['admin'],
  'task.change': ['owner', 'assignee', 'admin'],
  'task.transfer': ['owner', 'admin'],
  'task.delete': ['owner', 'admin'],
  'attachment.see': ['sees_task'],
  'attachment.add': ['changes_task'],
  'attachment.delete': ['uploader', 'task_owner', 'admin'],
  'tag.see': ['owner', 'sees_carrier', 'admin'],
  'tag.create': ['signed_in'],
  'tag.delete': ['owner', 'admin'],
  'task_tag.see': ['sees_task'],
  'task_tag.change': ['changes_task'],
} as const

export type Permission = keyof typeof permissions
export type Role = 'member' | 'admin'

/** Who makes a request: the user and session that the access token proved, with the user's role as of now. */
export interface Principal {
  readonly userId: string
  readonly sessionId: string
  readonly role: Role
}

/** Whether a contract's `x-permission` names a rule that exists here. */
export const isPermission = (name: unknown): name is Permission =>
  typeof name === 'string' && Object.hasOwn(permissions, name)

/**
 * Whether the principal's role alone refuses the permission, so that no row needs to be looked at: only
 * administrators pass a rule whose sole relation is `admin`.
 */
export const roleRefuses = (permission: Permission, role: Role): boolean => {
  const relations: readonly string[] = permissions[permission]
  return relations.every((relation) => relation === 'admin') && role !== 'admin'
}
