import type { components } from '../../../generated/openapi.ts'
import type { CalendarFeed } from './feeds.ts'
import { nilId } from './nil-id.ts'
import { type ProjectRole, projectRoles } from './project-roles.ts'
import type { TeamRole } from './team-roles.ts'
import { includesScope, type RequiredScope, type Scope } from './scopes.ts'

/**
 * The access rules. A key is the `x-permission` of an operation or a finer rule within an operation. Its value lists the
 * relations to the resource that grant the permission; one is enough. `src/db/access` compiles the rules into conditions on
 * single rows, into the access branches of lists and the change feed, and into `task_viewers`, which the triggers use.
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
  'identity.see': ['self'],
  'identity.link': ['signed_in'],
  'identity.unlink': ['self'],
  'audit.see': ['admin'],
  'user.see': ['signed_in'],
  // The email address, the quotas and their use.
  'user.see_private': ['self', 'admin'],
  'user.create': ['admin'],
  'user.create_admin': ['admin_in_session'],
  'user.change': ['self', 'admin'],
  // A password reset is sent to the address, so an API token must not change it.
  'user.change_email': ['self_in_session', 'admin_in_session'],
  'user.change_role': ['admin_in_session'],
  'user.disable': ['another_admin'],
  'user.set_quota': ['admin'],
  'user.set_password': ['another_admin'],
  // An API token must not delete the account that it acts for.
  'user.delete': ['self_in_session', 'another_admin'],
  // `all=true` of a list or feed: all resources of the installation.
  'list.all': ['admin'],
  // `viewer`, `commenter`, `editor` and `manager` are members of the project with at least this role; `owner` owns a personal
  // task.
  'task.see': ['owner', 'assignee', 'viewer', 'admin'],
  'task.create': ['signed_in'],
  'task.create_for_another': ['admin'],
  'task.batch': ['signed_in'],
  'recurrence.preview': ['signed_in'],
  'task.change': ['owner', 'assignee', 'editor', 'admin'],
  'task.transfer': ['owner', 'editor', 'admin'],
  // To another project or section, or out of a project.
  'task.move': ['owner', 'editor', 'admin'],
  // Those who can create tasks in its place.
  'task.set_recurrence': ['owner', 'editor', 'admin'],
  'task.delete': ['owner', 'editor', 'admin'],
  'trash.see': ['owner', 'editor', 'admin'],
  'trash.restore': ['owner', 'editor', 'admin'],
  'trash.delete': ['owner', 'editor', 'admin'],
  // `sees_deleted`: saw the task, or was a member of the project, before it was deleted.
  'event.stream': ['signed_in'],
  // `recipient`: of an event for one user alone, about neither a task nor a project.
  'event.see': ['sees_task', 'sees_project', 'sees_deleted', 'recipient'],
  'notification.see': ['recipient'],
  'notification.change': ['recipient'],
  'notification.mark_read': ['signed_in'],
  'notification_settings.see': ['signed_in'],
  'notification_settings.change': ['signed_in'],
  'reminder.see': ['recipient'],
  'reminder.change': ['recipient'],
  'export.see': ['self'],
  'export.create': ['signed_in'],
  'export.create_of_project': ['manager'],
  'export.create_for_another': ['admin_in_session'],
  'export.download_of_another': ['admin_in_session'],
  'export.change': ['self'],
  'import.see': ['self'],
  'import.create': ['signed_in'],
  'import.change': ['self'],
  'attachment.see': ['sees_task'],
  'attachment.add': ['changes_task'],
  'attachment.delete': ['uploader', 'task_owner', 'manager', 'admin'],
  'upload.continue': ['self'],
  'comment.see': ['sees_task'],
  'comment.add': ['owner', 'assignee', 'commenter', 'admin'],
  'comment.change': ['author'],
  'comment.delete': ['author', 'owner', 'manager', 'admin'],
  'tag.see': ['owner', 'viewer', 'sees_tagged_task', 'admin'],
  'tag.create': ['signed_in'],
  'tag.delete': ['owner', 'editor', 'admin'],
  'task_tag.see': ['sees_task'],
  'task_tag.change': ['changes_task'],
  'project.see': ['viewer', 'admin'],
  'project.create': ['signed_in'],
  // Tasks, tags and sections.
  'project.edit': ['editor', 'admin'],
  // The project itself, its members and invitations.
  'project.manage': ['manager', 'admin'],
  // Members can leave.
  'project_member.remove': ['self', 'manager', 'admin'],
  // The token of the invitation authorizes; any user may present it.
  'invitation.accept': ['signed_in'],
  'project_trash.see': ['manager', 'admin'],
  'project_trash.restore': ['manager', 'admin'],
  'project_trash.delete': ['manager', 'admin'],
  'team.see': ['member', 'shares_project', 'admin'],
  'team.create': ['signed_in'],
  'team.manage': ['manager', 'admin'],
  'team_member.remove': ['self', 'manager', 'admin'],
  // `owner` owns a webhook without a project; `manager` manages the project of the webhook.
  'webhook.see': ['owner', 'manager', 'admin'],
  'webhook.create': ['signed_in'],
  'webhook.change': ['owner', 'manager', 'admin'],
  'feed.see': ['self'],
  'feed.create': ['signed_in'],
  'feed.change': ['self'],
  'mcp.use': ['signed_in'],
} as const

export type Permission = keyof typeof permissions
export type Role = 'member' | 'admin'

export interface SessionCredential {
  readonly kind: 'session'
  readonly sessionId: string
}

/** The credential in the Authorization header: the access token of a session, or an API token. */
export type BearerCredential =
  | SessionCredential
  | { readonly kind: 'api_token'; readonly tokenId: string; readonly scopes: readonly Scope[] }

/** A link to a file. It is valid only as long as the credential that created it. */
export interface LinkCredential {
  readonly kind: 'link'
  readonly createdWith: BearerCredential
  readonly disposition: components['schemas']['Disposition']
}

/** The URL of a calendar feed. */
export interface FeedCredential {
  readonly kind: 'feed'
  readonly feed: CalendarFeed
}

/** A command on the machine of the service. It has the permissions of an administrator in a session. */
export interface ShellCredential {
  readonly kind: 'shell'
}

/** A job that does what a user has asked for. It acts as a member, whatever the role of the user. */
export interface JobCredential {
  readonly kind: 'job'
}

/** How a principal authenticated. */
export type Credential = BearerCredential | LinkCredential | FeedCredential | ShellCredential | JobCredential

/**
 * The authenticated user of a request, with the user's current role, time zone and quota. For a link, the user who created it; for a
 * feed, its owner.
 */
export interface Principal<C extends Credential = Credential> {
  readonly userId: string
  readonly role: Role
  /** A name that `canonicalTimeZone` accepts. */
  readonly timeZone: string
  /** Tasks that the user may own. Null: the quota of the installation. 0: unlimited. */
  readonly taskQuota: number | null
  readonly credential: C
}

export type BearerPrincipal = Principal<BearerCredential>

export type SessionPrincipal = Principal<SessionCredential>

export type LinkPrincipal = Principal<LinkCredential>

export type FeedPrincipal = Principal<FeedCredential>

/** The principal of a command: an administrator without an account. No user has the nil id. */
export const shellPrincipal: Principal<ShellCredential> = {
  userId: nilId,
  role: 'admin',
  timeZone: 'UTC',
  taskQuota: null,
  credential: { kind: 'shell' },
}

/** The session or API token that a credential depends on; null for the shell, feeds and jobs. */
export const bearerOf = (credential: Credential): BearerCredential | null => {
  if (credential.kind === 'shell' || credential.kind === 'feed' || credential.kind === 'job') return null
  return credential.kind === 'link' ? credential.createdWith : credential
}

export const isInSession = (principal: Principal): principal is SessionPrincipal =>
  principal.credential.kind === 'session'

export const isPermission = (name: unknown): name is Permission =>
  typeof name === 'string' && Object.hasOwn(permissions, name)

/** What a principal can be to a resource: the values of `permissions`. */
export type Relation = (typeof permissions)[Permission][number]

/** Whether one of the relations grants the permission. */
export const grants = (permission: Permission, relations: readonly Relation[]): boolean =>
  permissions[permission].some((relation) => relations.includes(relation))

/** The relations of a principal to a user. */
export const relationsToUser = ({ userId, role, credential }: Principal, id: string): readonly Relation[] => {
  const isSelf = id === userId
  const isAdmin = role === 'admin'
  // The shell has the permissions of a session.
  const isInSession = credential.kind === 'session' || credential.kind === 'shell'
  const holds: readonly (readonly [Relation, boolean])[] = [
    ['signed_in', true],
    ['self', isSelf],
    ['self_in_session', isSelf && isInSession],
    ['admin', isAdmin],
    ['admin_in_session', isAdmin && isInSession],
    ['another_admin', isAdmin && !isSelf],
  ]
  return holds.filter(([, isHeld]) => isHeld).map(([relation]) => relation)
}

/** The relations of a principal to a project in which they have a role; null for none. A role includes those before it. */
export const relationsToProject = (
  { role: principalRole }: Principal,
  role: ProjectRole | null,
): readonly Relation[] => {
  const included = role === null ? [] : projectRoles.slice(0, projectRoles.indexOf(role) + 1)
  return principalRole === 'admin' ? [...included, 'admin'] : included
}

/** The relations of a principal to what belongs to a project in which they have a role, or else to its owner alone. */
export const relationsToOwned = (
  principal: Principal,
  { owner_id, project_id }: { readonly owner_id: string; readonly project_id: string | null },
  role: ProjectRole | null,
): readonly Relation[] => {
  const shared = relationsToProject(principal, role)
  return project_id === null && owner_id === principal.userId ? [...shared, 'owner'] : shared
}

/** What decides who a principal is to a team. */
export interface TeamAccess {
  /** The principal's role in the team; null for none. */
  readonly role: TeamRole | null
  /** Whether the team is in a project to which the principal has access. */
  readonly shares_project: boolean
}

/** The relations of a principal to a team. */
export const relationsToTeam = (principal: Principal, team: TeamAccess): readonly Relation[] => {
  const relations: Relation[] = principal.role === 'admin' ? ['admin'] : []
  if (team.role !== null) relations.push('member')
  if (team.role === 'manager') relations.push('manager')
  if (team.shares_project) relations.push('shares_project')
  return relations
}

/** What decides who a principal is to a task. */
export interface TaskAccess {
  readonly owner_id: string
  readonly assignee_id: string | null
  readonly project_id: string | null
  /** The principal's role in the task's project; null for none. */
  readonly role: ProjectRole | null
  /** Whether its project is not in the trash; for a personal task, whether its owner was not deleted. */
  readonly isListLive: boolean
}

/** The relations of a principal to a task. In a project, owning a task gives no access. */
export const relationsToTask = (principal: Principal, task: TaskAccess): readonly Relation[] => {
  const relations = relationsToOwned(principal, task, task.role).filter(
    (one) => one !== 'admin' || task.isListLive,
  )
  if (task.assignee_id === principal.userId && task.isListLive) relations.push('assignee')
  if (grants('task.see', relations)) relations.push('sees_task')
  if (grants('task.change', relations)) relations.push('changes_task')
  return relations
}

declare const authorized: unique symbol

/** A resource on which the caller was found to have the permission. A function that writes takes only that. */
export type Authorized<P extends Permission, Resource> = Resource & { readonly [authorized]: P }

const administrators = new Set<string>(['admin', 'admin_in_session', 'another_admin'])

/** Whether the role alone denies the permission: every relation that grants it requires an administrator. */
export const roleRefuses = (permission: Permission, role: Role): boolean =>
  role !== 'admin' && permissions[permission].every((relation) => administrators.has(relation))

/** The principal for reading a list or feed. Administrators read as members unless `all` is set. */
export const listReader = (principal: Principal, { all = false }: { readonly all?: boolean }): Principal =>
  all ? principal : { ...principal, role: 'member' }

/** Whether the credential lacks the scope of an operation. A session has every scope; a link is for one operation. */
export const scopeRefuses = (scope: RequiredScope, credential: Credential): boolean => {
  if (credential.kind === 'link' || credential.kind === 'feed') return scope !== 'link'
  if (credential.kind === 'session' || credential.kind === 'shell' || credential.kind === 'job') return false
  if (scope === 'none' || scope === 'any') return false
  if (scope === 'session' || scope === 'link') return true
  const accepted = typeof scope === 'string' ? [scope] : scope
  return !accepted.some((required) => credential.scopes.some((granted) => includesScope(granted, required)))
}
