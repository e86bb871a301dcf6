import type { components } from '../../generated/openapi.ts'
import type {
  CommentExpansion,
  MemberExpansion,
  NotificationExpansion,
  RelationExpansion,
  TaskExpansion,
} from '../domain/expansions.ts'
import {
  allowsAttachment,
  allowsProject,
  allowsTask,
  allowsUser,
  type CallerPlaceholders,
} from './access/permissions.ts'
import { instantText } from './engine/instant-text.ts'
import { columnsOf, type Typed } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/**
 * The read schemas of the contract, as JSON text that PostgreSQL builds: each function takes the name of a row of its table and
 * returns a text expression. The fields are data, in the contract's order. A missing field, or one that is not in the contract, is
 * a compile error.
 */

type Schemas = components['schemas']
/** Columns have the types of the fields. Strings are not compared: the column of an enum or an id is a text. */
type Fields<Schema> = { readonly [Name in keyof Schema]-?: Typed<Wide<Schema[Name]>> }
type Wide<Value> = Value extends string ? string : Value extends readonly string[] ? string[] : Value

const object = (fields: Readonly<Record<string, SQL>>): SQL => {
  const columns = Object.entries(fields).map(([name, value]) => sql`${value} as ${sql.raw(name)}`)
  return sql`(select row_to_json(fields)::text from (select ${sql.join(columns, sql`, `)}) fields)`
}

/** The items of an aggregated list, as one JSON array. */
const array = (item: SQL, from: SQL, order: SQL): SQL =>
  sql`(select '[' || coalesce(string_agg(${item}, ',' order by ${order}), '') || ']' from ${from})`

/** A user as the caller sees it: with the email address and the quotas only if they may see them. */
export const userJson = (user: SQL, caller: CallerPlaceholders): SQL => {
  const columns = columnsOf<'users'>(user)
  const { id, username, display_name, role, time_zone, is_disabled, created_at, updated_at, version } =
    columns
  const ifPrivate = (value: SQL): SQL =>
    sql`case when ${allowsUser('user.see_private', caller, user)} then ${value} end`
  return object({
    id,
    username,
    display_name,
    email: ifPrivate(columns.email),
    role,
    time_zone,
    is_disabled,
    attachment_quota_bytes: ifPrivate(columns.attachment_quota_bytes),
    task_quota: ifPrivate(columns.task_quota),
    created_at: instantText(created_at),
    updated_at: instantText(updated_at),
    version,
  } satisfies Fields<Schemas['User']>)
}

const usageJson = (used: SQL, quota: SQL): SQL =>
  sql`${object({ used, quota } satisfies Fields<Schemas['ResourceUsage']>)}::json`

/** What a user uses of each resource, as pairs of the use and the quota. */
export const userUsageJson = (
  usage: Readonly<Record<keyof Schemas['UserUsage'], readonly [SQL, SQL]>>,
): SQL =>
  object({
    attachment_bytes: usageJson(...usage.attachment_bytes),
    tasks: usageJson(...usage.tasks),
    webhooks: usageJson(...usage.webhooks),
  } satisfies Fields<Schemas['UserUsage']>)

/** The user with an id, as the caller sees it; null if they do not. */
const visibleUser = (id: SQL, caller: CallerPlaceholders): SQL =>
  sql`(select ${userJson(sql`person`, caller)} from users person
    where person.id = ${id} and ${allowsUser('user.see', caller, sql`person`)})`

const tagFields = (tag: SQL) => {
  const { id, name, color, owner_id, project_id, created_at } = columnsOf<'tags'>(tag)
  return { id, name, color, owner_id, project_id, created_at: instantText(created_at) } satisfies Fields<
    Schemas['Tag']
  >
}

export const tagJson = (tag: SQL): SQL => object(tagFields(tag))

export const countedTagJson = (tag: SQL, taskCount: SQL): SQL =>
  object({ ...tagFields(tag), task_count: taskCount } satisfies Fields<Schemas['CountedTag']>)

/** The fields of a project that depend on the caller or on other rows. */
interface SharedFields {
  readonly role: SQL
  readonly member_count: SQL
  readonly open_task_count: SQL
}

const sharedFields = (project: SQL, caller: CallerPlaceholders): SharedFields => {
  const { id } = columnsOf<'projects'>(project)
  const { open_tasks, project_id } = columnsOf<'project_counts'>(sql`counts`)
  const ofMemberships = (value: SQL, condition: SQL): SQL =>
    sql`(select ${value} from memberships membership where membership.project_id = ${id} and ${condition})`
  return {
    role: ofMemberships(sql`membership.role`, sql`membership.user_id = ${caller.caller}`),
    member_count: ofMemberships(sql`count(*)::int`, sql`true`),
    open_task_count: sql`coalesce((select ${open_tasks} from project_counts counts where ${project_id} = ${id}), 0)`,
  }
}

/** These fields of a project in the trash, as they will be when it is restored. Its members are read from the grants. */
const restoredFields = (project: SQL, caller: CallerPlaceholders): SharedFields => {
  const { id } = columnsOf<'projects'>(project)
  const ofGrants = (value: SQL, condition: SQL): SQL =>
    sql`(select ${value} from project_grants granted where granted.project_id = ${id} and ${condition})`
  // Deleted users are few, since they are purged soon.
  const isNotDeleted = sql`not (array(select id from users where ${columnsOf<'users'>(sql`users`).deleted_at} is not null) @> array[granted.user_id])`
  return {
    ...sharedFields(project, caller),
    role: ofGrants(
      sql`(array_agg(granted.role order by role_rank(granted.role) desc))[1]`,
      sql`granted.user_id = ${caller.caller}`,
    ),
    member_count: ofGrants(sql`count(distinct granted.user_id)::int`, isNotDeleted),
  }
}

const projectFields = (project: SQL, shared: SharedFields) => {
  const columns = columnsOf<'projects'>(project)
  const { id, name, description, color, version } = columns
  const { role, member_count, open_task_count } = shared
  return {
    id,
    name,
    description,
    color,
    archived_at: instantText(columns.archived_at),
    role,
    member_count,
    open_task_count,
    version,
    created_at: instantText(columns.created_at),
    updated_at: instantText(columns.updated_at),
  } satisfies Fields<Schemas['Project']>
}

/** A project as the caller sees it. */
export const projectJson = (
  project: SQL,
  caller: CallerPlaceholders,
  shared: SharedFields = sharedFields(project, caller),
): SQL => object(projectFields(project, shared))

/** A project in the trash. */
export const trashedProjectJson = (project: SQL, caller: CallerPlaceholders): SQL =>
  object({
    ...projectFields(project, restoredFields(project, caller)),
    deleted_at: instantText(columnsOf<'projects'>(project).deleted_at),
  } satisfies Fields<Schemas['TrashedProject']>)

const variantOf = ({ role, member_count, open_task_count }: SharedFields): SQL =>
  sql`concat_ws('-', coalesce(${role}, 'none'), ${member_count}, ${open_task_count})`

/** The fields of a project that its version does not cover, as the variant of its entity tag. */
export const projectVariant = (project: SQL, caller: CallerPlaceholders): SQL =>
  variantOf(sharedFields(project, caller))

export const trashedProjectVariant = (project: SQL, caller: CallerPlaceholders): SQL =>
  variantOf(restoredFields(project, caller))

/** Adds a user as the caller sees it to the JSON, if `expand` asks for it and there is one. */
const withUser = <Name extends MemberExpansion | CommentExpansion>(
  json: SQL,
  [name, id]: readonly [Name, SQL],
  expand: readonly Name[],
  caller: CallerPlaceholders,
): SQL =>
  expand.includes(name)
    ? sql`left(${json}, -1) || coalesce(${sql.raw(`',"${name}":'`)} || ${visibleUser(id, caller)}, '') || '}'`
    : json

/** A team as the caller sees it. */
export const teamJson = (
  team: SQL,
  caller: CallerPlaceholders,
  role: SQL = roleInTeam(team, caller),
): SQL => {
  const { id, name, version, created_at, updated_at } = columnsOf<'teams'>(team)
  return object({
    id,
    name,
    role,
    version,
    created_at: instantText(created_at),
    updated_at: instantText(updated_at),
  } satisfies Fields<Schemas['Team']>)
}

/** The caller's role in a team; null if they are no member. */
export const roleInTeam = (team: SQL, caller: CallerPlaceholders): SQL =>
  sql`(select own.role from team_members own where own.team_id = ${team}.id and own.user_id = ${caller.caller})`

/** A member of a team, with the user as the caller sees it if `expand` asks for it. */
export const teamMemberJson = (
  member: SQL,
  expand: readonly MemberExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const { user_id, role, version, created_at } = columnsOf<'team_members'>(member)
  const json = object({
    user_id,
    role,
    version,
    created_at: instantText(created_at),
  } satisfies Fields<Omit<Schemas['TeamMember'], MemberExpansion>>)
  return withUser(json, ['user', user_id], expand, caller)
}

/** A team of a project: a row of `project_teams` and the name of the team. */
export const projectTeamJson = (row: SQL, name: SQL): SQL => {
  const { team_id, role, version, created_at } = columnsOf<'project_teams'>(row)
  return object({
    team_id,
    name,
    role,
    version,
    created_at: instantText(created_at),
  } satisfies Fields<Schemas['ProjectTeam']>)
}

/** A member of a project, with the user as the caller sees it if `expand` asks for it. */
export const projectMemberJson = (
  member: SQL,
  expand: readonly MemberExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const { user_id, role, created_at } = columnsOf<'memberships'>(member)
  const json = object({
    user_id,
    role,
    direct_role: sql`${member}.direct_role`,
    version: columnsOf<'project_members'>(member).version,
    created_at: instantText(created_at),
  } satisfies Fields<Omit<Schemas['ProjectMember'], MemberExpansion>>)
  return withUser(json, ['user', user_id], expand, caller)
}

/** A follower of a task, with the user as the caller sees it if `expand` asks for it. */
export const followerJson = (
  follower: SQL,
  expand: readonly MemberExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const { user_id, created_at } = columnsOf<'task_followers'>(follower)
  const json = object({ user_id, created_at: instantText(created_at) } satisfies Fields<
    Omit<Schemas['TaskFollower'], MemberExpansion>
  >)
  return withUser(json, ['user', user_id], expand, caller)
}

export const sectionJson = (section: SQL): SQL => {
  const { id, project_id, name, position, version, created_at, updated_at } = columnsOf<'sections'>(section)
  return object({
    id,
    project_id,
    name,
    position,
    version,
    created_at: instantText(created_at),
    updated_at: instantText(updated_at),
  } satisfies Fields<Schemas['Section']>)
}

/** A task without expansions. `tags` is the FROM clause of its tags, as `tag`: by default, the rows of task_tags. */
export const taskJson = (task: SQL, caller: CallerPlaceholders, tags: SQL = tagsOfTask(task)): SQL =>
  object(taskFields(task, caller, tags))

/** A relation, as seen from one of its tasks: a row `item`, with the related task if `expand` asks for it. */
export const relationJson = (
  item: SQL,
  expand: readonly RelationExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const { kind, created_at } = columnsOf<'task_relations'>(item)
  const json = object({
    kind,
    other_task_id: sql`${item}.related_id`,
    created_at: instantText(created_at),
  } satisfies Fields<Omit<Schemas['TaskRelation'], RelationExpansion>>)
  if (!expand.includes('task')) return json
  const related = sql`(select ${taskJson(sql`related`, caller)} from tasks related where related.id = ${item}.related_id)`
  return sql`left(${json}, -1) || ',"task":' || ${related} || '}'`
}

/** A task in the trash. */
export const trashedTaskJson = (task: SQL, caller: CallerPlaceholders): SQL =>
  object({
    ...taskFields(task, caller, tagsOfTask(task)),
    deleted_at: instantText(columnsOf<'tasks'>(task).deleted_at),
  } satisfies Fields<Omit<Schemas['TrashedTask'], TaskExpansion>>)

/** Whether an open task that the caller can see blocks the row `task`. */
export const isBlocked = (task: SQL, caller: Pick<CallerPlaceholders, 'caller' | 'is_admin'>): SQL => {
  const { id, blocker_count } = columnsOf<'tasks'>(task)
  return sql`(${blocker_count} > 0 and is_blocked(${id}, ${caller.caller}, ${caller.is_admin}))`
}

const taskFields = (task: SQL, caller: CallerPlaceholders, tags: SQL) => {
  const columns = columnsOf<'tasks'>(task)
  const {
    id,
    title,
    description,
    status,
    priority,
    owner_id,
    assignee_id,
    project_id,
    section_id,
    parent_id,
    position,
    attachment_count,
    comment_count,
    subtask_count,
    open_subtask_count,
    version,
  } = columns
  return {
    id,
    title,
    description,
    status,
    priority,
    start_at: instantText(columns.start_at),
    start_on: columns.start_on,
    due_at: instantText(columns.due_at),
    due_on: columns.due_on,
    completed_at: instantText(columns.completed_at),
    owner_id,
    assignee_id,
    project_id,
    section_id,
    parent_id,
    position,
    tags: sql`${array(tagJson(sql`tag`), tags, sql`tag.name_folded, tag.id`)}::json`,
    attachment_count,
    is_blocked: isBlocked(task, caller),
    comment_count,
    subtask_count,
    open_subtask_count,
    version,
    created_at: instantText(columns.created_at),
    updated_at: instantText(columns.updated_at),
  } satisfies Fields<Omit<Schemas['Task'], TaskExpansion>>
}

/** The tags of a task in the statement's snapshot; ends with a condition. */
export const tagsOfTask = (task: SQL): SQL =>
  sql`task_tags link join tags tag on tag.id = link.tag_id and ${columnsOf<'tags'>(sql`tag`).deleted_at} is null where link.task_id = ${task}.id`

/**
 * A task with the expansions in `expand`, as the caller sees them. An expansion without a resource is absent. A project and other
 * tasks are embedded if `reader` sees them: in their own lists, administrators read without their role.
 */
export const expandedTaskJson = (
  task: SQL,
  expand: SQL,
  caller: CallerPlaceholders,
  reader: CallerPlaceholders = caller,
): SQL => {
  const member = (name: TaskExpansion, json: SQL): SQL =>
    sql`case when ${sql.raw(`'${name}'`)} = any(${expand}) then coalesce(${sql.raw(`',"${name}":'`)} || ${json}, '') else '' end`
  const project = sql`(select ${projectJson(sql`project`, caller)} from projects project
    where project.id = ${columnsOf<'tasks'>(task).project_id} and ${allowsProject('project.see', reader, sql`project`)})`
  return sql`left(${taskJson(task, caller)}, -1) || ${member('owner', visibleUser(sql`${task}.owner_id`, caller))}
    || ${member('assignee', visibleUser(sql`${task}.assignee_id`, caller))}
    || ${member('project', project)} || ${member('attachments', newestAttachments(task, caller))}
    || ${member('parent', visibleParent(task, caller, reader))}
    || ${member('subtasks', firstSubtasks(task, caller, reader))} || '}'`
}

const visibleParent = (task: SQL, caller: CallerPlaceholders, reader: CallerPlaceholders): SQL =>
  sql`(select ${taskJson(sql`parent`, caller)} from tasks parent
    where parent.id = ${task}.parent_id and ${allowsTask('task.see', reader, sql`parent`)})`

/**
 * As many as the contract says. OFFSET keeps the planner from an index of all tasks that are not in the trash, which it takes to be
 * as selective as the parent while its statistics are older than most tasks.
 */
const firstSubtasks = (task: SQL, caller: CallerPlaceholders, reader: CallerPlaceholders): SQL =>
  array(
    taskJson(sql`subtask`, caller),
    sql`(
      select * from (
        select * from tasks where parent_id = ${task}.id order by position, id offset 0
      ) subtask where ${allowsTask('task.see', reader, sql`subtask`)}
      order by position, id limit 20) subtask`,
    sql`subtask.position, subtask.id`,
  )

/** As many as the contract says. */
const newestAttachments = (task: SQL, caller: CallerPlaceholders): SQL =>
  array(
    attachmentJson(sql`attachment`),
    sql`(
      select * from attachments attachment
      where attachment.task_id = ${task}.id and ${allowsAttachment('attachment.see', caller, sql`attachment`, task)}
      order by created_at desc nulls last, id desc nulls last limit 20) attachment`,
    sql`attachment.created_at desc, attachment.id desc`,
  )

export const attachmentJson = (attachment: SQL): SQL => {
  const columns = columnsOf<'attachments'>(attachment)
  const { id, task_id, file_name, content_type, detected_content_type, size, sha256, uploaded_by } = columns
  return object({
    id,
    task_id,
    file_name,
    content_type,
    detected_content_type,
    size,
    sha256,
    uploaded_by,
    created_at: instantText(columns.created_at),
  } satisfies Fields<Schemas['Attachment']>)
}

/** A comment, with its author as the caller sees them if `expand` asks for it. */
export const commentJson = (
  comment: SQL,
  expand: readonly CommentExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const columns = columnsOf<'comments'>(comment)
  const { id, task_id, author_id, body, mentions, version } = columns
  const json = object({
    id,
    task_id,
    author_id,
    body,
    mentions,
    version,
    created_at: instantText(columns.created_at),
    edited_at: instantText(columns.edited_at),
  } satisfies Fields<Omit<Schemas['Comment'], CommentExpansion>>)
  return withUser(json, ['author', author_id], expand, caller)
}

/** A notification, with the task if `expand` asks for it. Needs no check of access: only users who see the task see it. */
export const notificationJson = (
  notification: SQL,
  expand: readonly NotificationExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const columns = columnsOf<'notifications'>(notification)
  const { id, reason, actor_id, task_id, comment_id } = columns
  const json = object({
    id,
    reason,
    actor_id,
    task_id,
    comment_id,
    created_at: instantText(columns.created_at),
    read_at: instantText(columns.read_at),
  } satisfies Fields<Omit<Schemas['Notification'], NotificationExpansion>>)
  if (!expand.includes('task')) return json
  const expanded = sql`(select ${taskJson(sql`task`, caller)} from tasks task where task.id = ${task_id})`
  return sql`left(${json}, -1) || coalesce(',"task":' || ${expanded}, '') || '}'`
}

/** Notification settings, with defaults for a user without a row. */
export const notificationSettingsJson = (settings: SQL): SQL => {
  const { mail_digest, version } = columnsOf<'notification_settings'>(settings)
  return object({
    mail_digest: sql`coalesce(${mail_digest}, 'off')`,
    version: sql`coalesce(${version}, 1)`,
  } satisfies Fields<Schemas['NotificationSettings']>)
}

export const sessionJson = (session: SQL, currentId: SQL): SQL => {
  const { id, created_at, last_used_at, expires_at, user_agent, address } = columnsOf<'sessions'>(session)
  return object({
    id,
    created_at: instantText(created_at),
    last_used_at: instantText(last_used_at),
    expires_at: instantText(expires_at),
    user_agent,
    address,
    is_current: sql`${id} = ${currentId}`,
  } satisfies Fields<Schemas['Session']>)
}

export const apiTokenJson = (token: SQL): SQL => {
  const { id, name, scopes, created_at, expires_at, last_used_at } = columnsOf<'api_tokens'>(token)
  return object({
    id,
    name,
    scopes,
    created_at: instantText(created_at),
    expires_at: instantText(expires_at),
    last_used_at: instantText(last_used_at),
  } satisfies Fields<Schemas['ApiToken']>)
}

export const invitationJson = (invitation: SQL): SQL => {
  const columns = columnsOf<'invitations'>(invitation)
  const { id, project_id, email, role } = columns
  return object({
    id,
    project_id,
    email,
    role,
    // Not null: an invitation is valid only as long as its sender may manage the project.
    invited_by: sql`${columns.invited_by}`,
    created_at: instantText(columns.created_at),
    expires_at: instantText(columns.expires_at),
  } satisfies Fields<Schemas['Invitation']>)
}

/** An invitation, as shown to a holder of its token. */
export const invitationPreviewJson = (invitation: SQL, project: SQL, sender: SQL, canRegister: SQL): SQL => {
  const { role, expires_at } = columnsOf<'invitations'>(invitation)
  return object({
    project_name: columnsOf<'projects'>(project).name,
    role,
    invited_by_name: columnsOf<'users'>(sender).display_name,
    can_register: canRegister,
    expires_at: instantText(expires_at),
  } satisfies Fields<Schemas['InvitationPreview']>)
}

export const eventJson = (event: SQL): SQL => {
  const columns = columnsOf<'events'>(event)
  const { id, type, actor_id, task_id, project_id, resource_id, before, after } = columns
  return object({
    id,
    type,
    actor_id,
    task_id,
    project_id,
    resource_id,
    before,
    after,
    created_at: instantText(columns.created_at),
  } satisfies Fields<Schemas['Event']>)
}

export const auditEventJson = (event: SQL): SQL => {
  const columns = columnsOf<'audit_events'>(event)
  const { id, action, actor_id, user_id, session_id, token_id, address, user_agent, request_id } = columns
  return object({
    id,
    action,
    actor_id,
    user_id,
    session_id,
    token_id,
    address,
    user_agent,
    request_id,
    created_at: instantText(columns.created_at),
  } satisfies Fields<Schemas['AuditEvent']>)
}

/** A webhook without its secret. */
export const webhookJson = (webhook: SQL): SQL => {
  const columns = columnsOf<'webhooks'>(webhook)
  const { id, owner_id, project_id, url, description, event_types, is_enabled, disabled_reason, version } =
    columns
  return object({
    id,
    owner_id,
    project_id,
    url,
    description,
    event_types,
    is_enabled,
    disabled_reason,
    failing_since: instantText(columns.failing_since),
    previous_secret_until: instantText(columns.previous_secret_until),
    version,
    created_at: instantText(columns.created_at),
    updated_at: instantText(columns.updated_at),
  } satisfies Fields<Schemas['Webhook']>)
}

export const webhookDeliveryJson = (delivery: SQL): SQL => {
  const columns = columnsOf<'webhook_deliveries'>(delivery)
  const { id, webhook_id, sequence, event_id, event_type, status, attempts } = columns
  const { duration_ms, response_status, response_body, error } = columns
  return object({
    id,
    webhook_id,
    sequence,
    event_id,
    event_type,
    status,
    attempts,
    next_attempt_at: sql`case when ${status} = 'pending' then ${instantText(columns.due_at)} end`,
    attempted_at: instantText(columns.attempted_at),
    duration_ms,
    response_status,
    response_body,
    error,
    created_at: instantText(columns.created_at),
    ended_at: instantText(columns.ended_at),
  } satisfies Fields<Schemas['WebhookDelivery']>)
}
