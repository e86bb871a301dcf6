import { includesScope, type RequiredScope, type Scope } from './scopes.ts'

/**
 * Who may do what, as data. Each key is the `x-permission` of an operation or a finer rule within one; each value
 * names the relations to the resource of which one is enough. `src/db/access/permissions.ts` compiles them into WHERE.
 */
export const permissions = {
  anyone: ['anyone'],
  'session.see': ['self'],
  'session.end': ['signed_in'],
  'session.end_other': ['self'],
  'session.reauthenticate': ['signed_in'],
  'password.change': ['signed_in'],
  'api_token.see': ['self'],
  'api_token.create': ['signed_in'],
  'api_token.revoke': ['self'],
  'api_token.see_any': ['admin'],
  'api_token.revoke_any': ['admin'],
  'second_factor.see': ['signed_in'],
  'second_factor.change': ['signed_in'],
  'audit.see': ['admin'],
  'user.see': ['signed_in'],
  'user.see_email': ['self', 'admin'],
  'user.create': ['admin'],
  'user.create_admin': ['admin_in_session'],
  'user.change': ['self', 'admin'],
  // Whoever has the address can have the password reset, so an API token must not change it.
  'user.change_email': ['self_in_session', 'admin_in_session'],
  'user.change_role': ['admin_in_session'],
  'user.set_password': ['another_admin'],
  // Nor may it delete the account that it acts for, an administrator's included.
  'user.delete': ['self_in_session', 'another_admin'],
  // Everything in the installation, by `all=true` of a list or feed.
  'list.all': ['admin'],
  'task.see': ['owner', 'assignee', 'admin'],
  'task.create': ['signed_in'],
  'task.create_for_another': ['admin'],
  'task.batch': ['signed_in'],
  'task.change': ['owner', 'assignee', 'admin'],
  'task.transfer': ['owner', 'admin'],
  'task.delete': ['owner', 'admin'],
  'trash.see': ['owner', 'admin'],
  'trash.restore': ['owner', 'admin'],
  'trash.delete': ['owner', 'admin'],
  'attachment.see': ['sees_task'],
  'attachment.add': ['changes_task'],
  'attachment.delete': ['uploader', 'task_owner', 'admin'],
  'upload.continue': ['self'],
  'tag.see': ['owner', 'sees_carrier', 'admin'],
  'tag.create': ['signed_in'],
  'tag.delete': ['owner', 'admin'],
  'task_tag.see': ['sees_task'],
  'task_tag.change': ['changes_task'],
} as const

export type Permission = keyof typeof permissions
export type Role = 'member' | 'admin'

/** What a principal showed: the access token of a session, or an API token. */
export type Credential =
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'api_token'; readonly tokenId: string; readonly scopes: readonly Scope[] }

/** Who makes a request: the user whom the bearer token proved, with the user's role as of now. */
export interface Principal {
  readonly userId: string
  readonly role: Role
  readonly credential: Credential
}

/** A principal who is signed in, and no program with an API token. */
export interface SessionPrincipal extends Principal {
  readonly credential: Extract<Credential, { kind: 'session' }>
}

/** Whether a principal showed the access token of a session. */
export const isInSession = (principal: Principal): principal is SessionPrincipal =>
  principal.credential.kind === 'session'

/** Whether a contract's `x-permission` names a rule that exists here. */
export const isPermission = (name: unknown): name is Permission =>
  typeof name === 'string' && Object.hasOwn(permissions, name)

const administrators = new Set<string>(['admin', 'admin_in_session', 'another_admin'])

/**
 * Whether the principal's role alone refuses the permission, so that no row needs to be looked at: only administrators
 * pass a rule that names no other relation.
 */
export const roleRefuses = (permission: Permission, role: Role): boolean =>
  role !== 'admin' && permissions[permission].every((relation) => administrators.has(relation))

/**
 * The principal in the role that decides what a list or feed holds. Administrators read lists as members do, unless they
 * ask for everything.
 */
export const listReader = (principal: Principal, { all = false }: { readonly all?: boolean }): Principal =>
  all ? principal : { ...principal, role: 'member' }

/** Whether the credential is not enough for an operation with this scope, whoever it belongs to. */
export const scopeRefuses = (scope: RequiredScope, credential: Credential): boolean => {
  if (scope === 'none' || credential.kind === 'session') return false
  return scope === 'session' || !credential.scopes.some((granted) => includesScope(granted, scope))
}
