import type { components } from '../../../generated/openapi.ts'
import type {
  CommentExpansion,
  MemberExpansion,
  NotificationExpansion,
  RelationExpansion,
  TaskExpansion,
} from '../../domain/shared/expansions.ts'
import { eventSubjects, notificationSubjects, type SubjectType } from '../../domain/activity/subjects.ts'
import { busyStatuses } from '../../domain/interchange/imports.ts'
import { jobPollSeconds } from '../../domain/interchange/job-polling.ts'
import {
  allowsAttachment,
  allowsProject,
  allowsTask,
  allowsUser,
  type CallerPlaceholders,
} from '../access/permissions.ts'
import { instantText } from '../statements/instant-text.ts'
import {
  aliasedTable,
  type AnyColumn,
  Column,
  type GetColumnData,
  is,
  type SQL,
  sql,
  type SQLWrapper,
} from '../schema/drizzle.ts'
import {
  type apiTokens,
  attachments,
  type auditEvents,
  type comments,
  type events,
  type feeds,
  type identities,
  type invitations,
  isInstant,
  memberships,
  type notifications,
  type exports,
  type importRows,
  type imports,
  type notificationSettings,
  reminders,
  projectCounts,
  projects,
  type projectTeams,
  type sections,
  type sessions,
  tags,
  type taskFollowers,
  type taskRelations,
  tasks,
  taskTags,
  teamMembers,
  type teams,
  users,
  type webhookDeliveries,
  type webhooks,
} from '../schema/tables.ts'
import { revisionOf } from './touch.ts'

/**
 * The read schemas of the contract, as JSON text that PostgreSQL builds: each function takes a row, which is a table or an alias of it,
 * and returns a text expression. The fields are data, in the contract's order. A missing field, or one that is not in the contract, is
 * a compile error.
 */

const person = aliasedTable(users, 'person')
const project = aliasedTable(projects, 'project')
const membership = aliasedTable(memberships, 'membership')
const counts = aliasedTable(projectCounts, 'counts')
const own = aliasedTable(teamMembers, 'own')
const tag = aliasedTable(tags, 'tag')
const reminder = aliasedTable(reminders, 'reminder')
const link = aliasedTable(taskTags, 'link')

type Schemas = components['schemas']

/** A column or typed SQL with values of the type. */
type Field<Value> = SQL<Value> | (AnyColumn & ColumnWith<Value>)
type ColumnWith<Value> = {
  readonly _: { readonly data: NonNullable<Value>; readonly notNull: null extends Value ? boolean : true }
}

/** Columns have the types of the fields. Strings are not compared: the column of an enum or an id is a text. */
export type Fields<Schema> = { readonly [Name in keyof Schema]-?: Field<Wide<Schema[Name]>> }
type Wide<Value> = Value extends string ? string : Value extends readonly string[] ? string[] : Value

/** An object. Columns with times are in the format of the contract. */
export const object = (fields: Readonly<Record<string, SQLWrapper>>): SQL<string> => {
  const columns = Object.entries(fields).map(([name, value]) => sql`${rendered(value)} as ${sql.raw(name)}`)
  return sql`(select row_to_json(fields)::text from (select ${sql.join(columns, sql`, `)}) fields)`
}

const rendered = (value: SQLWrapper): SQLWrapper =>
  is(value, Column) && isInstant(value) ? instantText(value) : value

/** The items of an aggregated list, as one JSON array. */
const array = (item: SQL, from: SQL, order: SQL): SQL =>
  sql`(select '[' || coalesce(string_agg(${item}, ',' order by ${order}), '') || ']' from ${from})`

/** A user as the caller sees it: with the email address and the quotas only if they may see them. */
export const userJson = (user: typeof users, caller: CallerPlaceholders): SQL => {
  const { id, username, display_name, role, time_zone, is_disabled, created_at, updated_at, version } = user
  const ifPrivate = <Private extends AnyColumn>(value: Private): SQL<GetColumnData<Private>> =>
    sql`case when ${allowsUser('user.see_private', caller, user)} then ${value} end`
  return object({
    id,
    username,
    display_name,
    email: ifPrivate(user.email),
    role,
    time_zone,
    is_disabled,
    attachment_quota_bytes: ifPrivate(user.attachment_quota_bytes),
    task_quota: ifPrivate(user.task_quota),
    created_at,
    updated_at,
    version,
    revision: version,
  } satisfies Fields<Schemas['User']>)
}

/** The use of a resource, and its quota. */
type Usage = readonly [used: Field<number>, quota: Field<number | null>]

const usageJson = ([used, quota]: Usage): SQL<Schemas['ResourceUsage']> =>
  sql`${object({ used, quota } satisfies Fields<Schemas['ResourceUsage']>)}::json`

/** What a user uses of each resource. */
export const userUsageJson = (usage: Readonly<Record<keyof Schemas['UserUsage'], Usage>>): SQL =>
  object({
    attachment_bytes: usageJson(usage.attachment_bytes),
    interchange_bytes: usageJson(usage.interchange_bytes),
    tasks: usageJson(usage.tasks),
    webhooks: usageJson(usage.webhooks),
    feeds: usageJson(usage.feeds),
  } satisfies Fields<Schemas['UserUsage']>)

/** The user with an id, as the caller sees it; null if they do not. */
const visibleUser = (id: SQLWrapper, caller: CallerPlaceholders): SQL =>
  sql`(select ${userJson(person, caller)} from users person
    where ${person.id} = ${id} and ${allowsUser('user.see', caller, person)})`

const tagFields = ({ id, name, color, owner_id, project_id, created_at }: typeof tags) =>
  ({ id, name, color, owner_id, project_id, created_at }) satisfies Fields<Schemas['Tag']>

export const tagJson = (tag: typeof tags): SQL => object(tagFields(tag))

export const countedTagJson = (tag: typeof tags, taskCount: SQL<number>): SQL =>
  object({ ...tagFields(tag), task_count: taskCount } satisfies Fields<Schemas['CountedTag']>)

/** The fields of a project that depend on the caller or on other rows. */
type SharedFields = Pick<Fields<Schemas['Project']>, 'role' | 'member_count' | 'open_task_count'>

const sharedFields = ({ id }: typeof projects, caller: CallerPlaceholders): SharedFields => {
  const membershipValue = <Value>(value: SQL<Value>, condition: SQL): SQL<Value> =>
    sql`(select ${value} from memberships membership where ${membership.project_id} = ${id} and ${condition})`
  return {
    role: membershipValue(
      sql<string | null>`${membership.role}`,
      sql`${membership.user_id} = ${caller.caller}`,
    ),
    member_count: membershipValue(sql<number>`count(*)::int`, sql`true`),
    open_task_count: sql<number>`coalesce((
      select ${counts.open_tasks} from project_counts counts where ${counts.project_id} = ${id}), 0)`,
  }
}

/** These fields of a project in the trash, as they will be when it is restored. Its members are read from the grants. */
const restoredFields = (project: typeof projects, caller: CallerPlaceholders): SharedFields => {
  const grantValue = <Value>(value: SQL<Value>, condition: SQL): SQL<Value> =>
    sql`(select ${value} from project_grants granted where granted.project_id = ${project.id} and ${condition})`
  // Deleted users are few, since they are purged soon.
  const isNotDeleted = sql`not (array(select id from users where ${users.deleted_at} is not null) @> array[granted.user_id])`
  return {
    ...sharedFields(project, caller),
    role: grantValue(
      sql<string | null>`(array_agg(granted.role order by role_rank(granted.role) desc))[1]`,
      sql`granted.user_id = ${caller.caller}`,
    ),
    member_count: grantValue(sql<number>`count(distinct granted.user_id)::int`, isNotDeleted),
  }
}

const projectFields = (project: typeof projects, shared: SharedFields) => {
  const { id, name, description, color, archived_at, version, created_at, updated_at } = project
  const { metadata, external_source, external_id } = project
  const { role, member_count, open_task_count } = shared
  return {
    id,
    name,
    description,
    color,
    archived_at,
    role,
    member_count,
    open_task_count,
    metadata,
    external_source,
    external_id,
    version,
    revision: version,
    created_at,
    updated_at,
  } satisfies Fields<Schemas['Project']>
}

/** A project as the caller sees it. */
export const projectJson = (project: typeof projects, caller: CallerPlaceholders): SQL =>
  object(projectFields(project, sharedFields(project, caller)))

/** A project in the trash. */
export const trashedProjectJson = (project: typeof projects, caller: CallerPlaceholders): SQL =>
  object({
    ...projectFields(project, restoredFields(project, caller)),
    deleted_at: sql<string>`${instantText(project.deleted_at)}`,
  } satisfies Fields<Schemas['TrashedProject']>)

/** Adds a user as the caller sees it to the JSON, if `expand` asks for it and there is one. */
const withUser = <Name extends MemberExpansion | CommentExpansion>(
  json: SQL,
  [name, id]: readonly [Name, SQLWrapper],
  expand: readonly Name[],
  caller: CallerPlaceholders,
): SQL =>
  expand.includes(name)
    ? sql`left(${json}, -1) || coalesce(${sql.raw(`',"${name}":'`)} || ${visibleUser(id, caller)}, '') || '}'`
    : json

/** A team as the caller sees it. */
export const teamJson = (
  team: typeof teams,
  caller: CallerPlaceholders,
  role: SQL<string | null> = roleInTeam(team, caller),
): SQL => {
  const { id, name, version, created_at, updated_at } = team
  return object({ id, name, role, version, revision: version, created_at, updated_at } satisfies Fields<
    Schemas['Team']
  >)
}

/** The caller's role in a team; null if they are no member. */
export const roleInTeam = (team: typeof teams, caller: CallerPlaceholders): SQL<string | null> =>
  sql`(select ${own.role} from team_members own where ${own.team_id} = ${team.id} and ${own.user_id} = ${caller.caller})`

/** A member of a team, with the user as the caller sees it if `expand` asks for it. */
export const teamMemberJson = (
  { user_id, role, version, created_at }: typeof teamMembers,
  expand: readonly MemberExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const fields = { user_id, role, version, revision: version, created_at } satisfies Fields<
    Omit<Schemas['TeamMember'], MemberExpansion>
  >
  const json = object(fields)
  return withUser(json, ['user', user_id], expand, caller)
}

/** A team of a project: a row of `project_teams` and the name of the team. */
export const projectTeamJson = (
  { team_id, role, version, created_at }: typeof projectTeams,
  name: SQL<string>,
): SQL =>
  object({ team_id, name, role, version, revision: version, created_at } satisfies Fields<
    Schemas['ProjectTeam']
  >)

/** A member of a project, with the user as the caller sees it if `expand` asks for it. */
export const projectMemberJson = (
  member: typeof memberships,
  expand: readonly MemberExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const { user_id, role, created_at } = member
  const json = object({
    user_id,
    role,
    direct_role: sql<string | null>`${member}.direct_role`,
    version: sql<number>`${member}.version`,
    revision: sql<number>`${member}.version`,
    created_at,
  } satisfies Fields<Omit<Schemas['ProjectMember'], MemberExpansion>>)
  return withUser(json, ['user', user_id], expand, caller)
}

/** A follower of a task, with the user as the caller sees it if `expand` asks for it. */
export const followerJson = (
  { user_id, created_at }: typeof taskFollowers,
  expand: readonly MemberExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const fields = { user_id, created_at } satisfies Fields<Omit<Schemas['TaskFollower'], MemberExpansion>>
  const json = object(fields)
  return withUser(json, ['user', user_id], expand, caller)
}

export const sectionJson = (section: typeof sections): SQL => {
  const { id, project_id, name, position, version, created_at, updated_at } = section
  const fields = {
    id,
    project_id,
    name,
    position,
    version,
    revision: version,
    created_at,
    updated_at,
  } satisfies Fields<Schemas['Section']>
  return object(fields)
}

/** A task without expansions. `from` is the FROM clause of its tags, as `tag`: by default, the rows of task_tags. */
export const taskJson = (task: typeof tasks, caller: CallerPlaceholders, from: SQL = tagsOfTask(task)): SQL =>
  object(taskFields(task, caller, from))

/** A relation, as seen from one of its tasks: a row with the id of the related task, which is added if `expand` asks for it. */
export const relationJson = (
  item: typeof taskRelations,
  expand: readonly RelationExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const { kind, created_at } = item
  const otherTask = sql<string>`${item}.related_id`
  const fields = { kind, other_task_id: otherTask, created_at } satisfies Fields<
    Omit<Schemas['TaskRelation'], RelationExpansion>
  >
  const json = object(fields)
  if (!expand.includes('task')) return json
  const related = aliasedTable(tasks, 'related')
  const relatedJson = sql`(select ${taskJson(related, caller)} from tasks related where ${related.id} = ${otherTask})`
  return sql`left(${json}, -1) || ',"task":' || ${relatedJson} || '}'`
}

/** A task in the trash. */
export const trashedTaskJson = (task: typeof tasks, caller: CallerPlaceholders): SQL =>
  object({
    ...taskFields(task, caller, tagsOfTask(task)),
    deleted_at: sql<string>`${instantText(task.deleted_at)}`,
  } satisfies Fields<Omit<Schemas['TrashedTask'], TaskExpansion>>)

/** Whether an open task that the caller can see blocks the row `task`. */
export const isBlocked = (
  { id, blocker_count }: typeof tasks,
  { caller, is_admin }: Pick<CallerPlaceholders, 'caller' | 'is_admin'>,
): SQL<boolean> => sql`(${blocker_count} > 0 and is_blocked(${id}, ${caller}, ${is_admin}))`

/** The recurrence of a task, which the row has without the date that it counts from. */
export const recurrenceJson = ({ recurrence, recurrence_anchor }: typeof tasks): SQL<Schemas['Recurrence']> =>
  sql`(${recurrence} || jsonb_build_object('anchor', ${recurrence_anchor} -> 'of'))`

const occurrenceJson = (task: typeof tasks): SQL<Schemas['Occurrence']> => {
  const fields = {
    series_id: sql<string>`${task.series_id}`,
    number: sql<number>`${task.occurrence_number}`,
    at: task.occurrence_at,
    on: task.occurrence_on,
    next_task_id: task.next_task_id,
  } satisfies Fields<NonNullable<Schemas['Occurrence']>>
  return sql`case when ${task.series_id} is not null then ${object(fields)}::json end`
}

const taskFields = (task: typeof tasks, caller: CallerPlaceholders, from: SQL) =>
  ({
    id: task.id,
    title: task.title,
    description: task.description,
    status: task.status,
    priority: task.priority,
    start_at: task.start_at,
    start_on: task.start_on,
    due_at: task.due_at,
    due_on: task.due_on,
    completed_at: task.completed_at,
    owner_id: task.owner_id,
    assignee_id: task.assignee_id,
    project_id: task.project_id,
    section_id: task.section_id,
    parent_id: task.parent_id,
    position: task.position,
    recurrence: recurrenceJson(task),
    occurrence: occurrenceJson(task),
    metadata: task.metadata,
    external_source: task.external_source,
    external_id: task.external_id,
    tags: sql<Schemas['Tag'][]>`${array(tagJson(tag), from, sql`${tag.name_folded}, ${tag.id}`)}::json`,
    attachment_count: task.attachment_count,
    is_blocked: isBlocked(task, caller),
    comment_count: task.comment_count,
    subtask_count: task.subtask_count,
    open_subtask_count: task.open_subtask_count,
    version: task.version,
    revision: revisionOf(task),
    created_at: task.created_at,
    updated_at: task.updated_at,
  }) satisfies Fields<Omit<Schemas['Task'], TaskExpansion>>

/**
 * The caller's reminders of a task, as JSON: each has a time, or is relative to a date. A snoozed one is due at that time alone, for
 * as long as it is snoozed.
 */
const remindersOfTask = (task: typeof tasks, { caller }: CallerPlaceholders): SQL => {
  const { id, task_id, user_id, at, snoozed_until, relative_to, offset_minutes, time_of_day } = reminder
  const time = sql`coalesce(${snoozed_until}, ${at})`
  return sql`(
    select coalesce(json_agg(
      case when ${time} is not null then json_build_object('at', ${instantText(time)})
        else json_build_object('relative_to', ${relative_to}, 'offset_minutes', ${offset_minutes}, 'time_of_day', ${time_of_day}) end
      order by ${id}), '[]')
    from reminders reminder where ${task_id} = ${task.id} and ${user_id} = ${caller})`
}

/** A task for a calendar: unlike in the contract, with what its series counts from, and only the names of its tags. */
export const calendarTaskJson = (task: typeof tasks, caller: CallerPlaceholders): SQL =>
  object({
    id: task.id,
    title: task.title,
    description: task.description,
    status: task.status,
    priority: task.priority,
    start_at: task.start_at,
    start_on: task.start_on,
    due_at: task.due_at,
    due_on: task.due_on,
    completed_at: task.completed_at,
    parent_id: task.parent_id,
    recurrence: task.recurrence,
    series_id: task.series_id,
    recurrence_anchor: task.recurrence_anchor,
    occurrence_number: task.occurrence_number,
    occurrence_at: task.occurrence_at,
    occurrence_on: task.occurrence_on,
    next_task_id: task.next_task_id,
    tags: sql`array(select ${tag.name} from ${tagsOfTask(task)} order by ${tag.name_folded}, ${tag.id})`,
    reminders: remindersOfTask(task, caller),
    version: task.version,
    created_at: task.created_at,
    updated_at: task.updated_at,
  })

/** The tags of a task in the statement's snapshot; ends with a condition. */
export const tagsOfTask = (task: typeof tasks): SQL =>
  sql`task_tags link join tags tag on ${tag.id} = ${link.tag_id} and ${tag.deleted_at} is null where ${link.task_id} = ${task.id}`

/**
 * A task with the expansions in `expand`, as the caller sees them. An expansion without a resource is absent. A project and other
 * tasks are shown if `reader` sees them: in their own lists, administrators read without their role.
 */
export const expandedTaskJson = (
  task: typeof tasks,
  expand: SQL,
  caller: CallerPlaceholders,
  reader: CallerPlaceholders = caller,
): SQL => {
  const member = (name: TaskExpansion, json: SQL): SQL =>
    sql`case when ${sql.raw(`'${name}'`)} = any(${expand}) then coalesce(${sql.raw(`',"${name}":'`)} || ${json}, '') else '' end`
  const visibleProject = sql`(select ${projectJson(project, caller)} from projects project
    where ${project.id} = ${task.project_id} and ${allowsProject('project.see', reader, project)})`
  return sql`left(${taskJson(task, caller)}, -1) || ${member('owner', visibleUser(task.owner_id, caller))}
    || ${member('assignee', visibleUser(task.assignee_id, caller))}
    || ${member('project', visibleProject)} || ${member('attachments', newestAttachments(task, caller))}
    || ${member('parent', visibleParent(task, caller, reader))}
    || ${member('subtasks', firstSubtasks(task, caller, reader))} || '}'`
}

const visibleParent = (task: typeof tasks, caller: CallerPlaceholders, reader: CallerPlaceholders): SQL => {
  const parent = aliasedTable(tasks, 'parent')
  return sql`(select ${taskJson(parent, caller)} from tasks parent
    where ${parent.id} = ${task.parent_id} and ${allowsTask('task.see', reader, parent)})`
}

/**
 * As many as the contract says. OFFSET keeps the planner from an index of all tasks that are not in the trash, which it takes to be
 * as selective as the parent while its statistics are older than most tasks.
 */
const firstSubtasks = (task: typeof tasks, caller: CallerPlaceholders, reader: CallerPlaceholders): SQL => {
  const subtask = aliasedTable(tasks, 'subtask')
  return array(
    taskJson(subtask, caller),
    sql`(
      select * from (
        select * from tasks where ${tasks.parent_id} = ${task.id} order by position, id offset 0
      ) subtask where ${allowsTask('task.see', reader, subtask)}
      order by position, id limit 20) subtask`,
    sql`${subtask.position}, ${subtask.id}`,
  )
}

/** As many as the contract says. */
const newestAttachments = (task: typeof tasks, caller: CallerPlaceholders): SQL => {
  const attachment = aliasedTable(attachments, 'attachment')
  return array(
    attachmentJson(attachment),
    sql`(
      select * from attachments attachment
      where ${attachment.task_id} = ${task.id} and ${allowsAttachment('attachment.see', caller, attachment, task)}
      order by created_at desc nulls last, id desc nulls last limit 20) attachment`,
    sql`${attachment.created_at} desc, ${attachment.id} desc`,
  )
}

export const attachmentJson = (attachment: typeof attachments): SQL =>
  object({
    id: attachment.id,
    task_id: attachment.task_id,
    file_name: attachment.file_name,
    content_type: attachment.content_type,
    detected_content_type: attachment.detected_content_type,
    size: attachment.size,
    sha256: attachment.sha256,
    uploaded_by: attachment.uploaded_by,
    created_at: attachment.created_at,
  } satisfies Fields<Schemas['Attachment']>)

/** A comment, with its author as the caller sees them if `expand` asks for it. */
export const commentJson = (
  { id, task_id, author_id, author_name, body, mentions, version, created_at, edited_at }: typeof comments,
  expand: readonly CommentExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const fields = {
    id,
    task_id,
    author_id,
    author_name,
    body,
    mentions,
    version,
    revision: version,
    created_at,
    edited_at,
  } satisfies Fields<Omit<Schemas['Comment'], CommentExpansion>>
  const json = object(fields)
  return withUser(json, ['author', author_id], expand, caller)
}

/** The subject of a row, by the value of `key`, with the column that has the id of each type. */
const subjectJson = <Type extends SubjectType>(
  key: SQLWrapper,
  types: Readonly<Record<string, Type>>,
  ids: Readonly<Record<Type, AnyColumn>>,
): SQL<Schemas['Subject']> => {
  const byKey = (valueOf: (type: Type) => SQLWrapper): SQL<string> => {
    const cases = Object.entries(types).map(
      ([name, type]) => sql`when ${sql.raw(`'${name}'`)} then ${valueOf(type)}`,
    )
    return sql`case ${key} ${sql.join(cases, sql` `)} end`
  }
  const subject = { type: byKey((type) => sql.raw(`'${type}'`)), id: byKey((type) => ids[type]) }
  return sql`${object(subject satisfies Fields<Schemas['Subject']>)}::json`
}

/** A notification, with the task if `expand` asks for it. Needs no check of access: only users who see the task see it. */
export const notificationJson = (
  notification: typeof notifications,
  expand: readonly NotificationExpansion[],
  caller: CallerPlaceholders,
): SQL => {
  const {
    id,
    reason,
    actor_id,
    task_id,
    comment_id,
    reminder_id,
    export_id,
    import_id,
    created_at,
    read_at,
  } = notification
  const json = object({
    id,
    reason,
    subject: subjectJson(reason, notificationSubjects, {
      task: task_id,
      comment: comment_id,
      export: export_id,
      import: import_id,
    }),
    actor_id,
    task_id,
    comment_id,
    reminder_id,
    export_id,
    import_id,
    created_at,
    read_at,
  } satisfies Fields<Omit<Schemas['Notification'], NotificationExpansion>>)
  if (!expand.includes('task')) return json
  const task = aliasedTable(tasks, 'task')
  const expanded = sql`(select ${taskJson(task, caller)} from tasks task where ${task.id} = ${task_id})`
  return sql`left(${json}, -1) || coalesce(',"task":' || ${expanded}, '') || '}'`
}

/** Notification settings, with defaults for a user without a row. */
export const notificationSettingsJson = ({
  mail_digest,
  mail_reminders,
  version,
}: typeof notificationSettings): SQL =>
  object({
    mail_digest: sql<string>`coalesce(${mail_digest}, 'off')`,
    mail_reminders: sql<boolean>`coalesce(${mail_reminders}, false)`,
    version: sql<number>`coalesce(${version}, 1)`,
    revision: sql<number>`coalesce(${version}, 1)`,
  } satisfies Fields<Schemas['NotificationSettings']>)

/** A reminder, of which only its user hears. */
export const reminderJson = (reminder: typeof reminders): SQL => {
  const { id, task_id, at, relative_to, offset_minutes, time_of_day, snoozed_until } = reminder
  const { remind_at, fires_at, fired_at, late_seconds, version, created_at, updated_at } = reminder
  return object({
    id,
    task_id,
    at,
    relative_to,
    offset_minutes,
    time_of_day,
    snoozed_until,
    remind_at,
    is_pending: sql<boolean>`${fires_at} is not null`,
    fired_at,
    late_seconds,
    version,
    revision: revisionOf(reminder),
    created_at,
    updated_at,
  } satisfies Fields<Schemas['Reminder']>)
}

/** Whether an export waits or runs. */
export const isPending = ({ status }: typeof exports): SQL<boolean> =>
  sql<boolean>`(${status} in ('waiting', 'running'))`

/** An export, which asks its client to poll as long as it has not ended. */
export const exportJson = (row: typeof exports): SQL => {
  const { id, requested_by, user_id, project_id, status, failure, size, sha256 } = row
  const { version, created_at, updated_at, finished_at, expires_at } = row
  return object({
    id,
    requested_by,
    user_id,
    project_id,
    status,
    progress: progressJson(row),
    poll_after_seconds: sql<
      number | null
    >`case when ${isPending(row)} then ${sql.raw(String(jobPollSeconds))} end`,
    failure,
    size,
    sha256,
    expires_at,
    version,
    revision: revisionOf(row),
    created_at,
    updated_at,
    ended_at: finished_at,
  } satisfies Fields<Schemas['Export']>)
}

/** Whether something happens with the row of `imports` in the background. */
export const isImportBusy = ({ status }: typeof imports): SQL<boolean> =>
  sql<boolean>`(${status} in (${sql.raw(busyStatuses.map((busy) => `'${busy}'`).join(', '))}))`

/** An import, which asks its client to poll as long as something happens in the background. */
export const importJson = (row: typeof imports): SQL => {
  const { id, status, failure, file_name, size, format, csv, project_id, existing } = row
  const { users: mapped, preview, result } = row
  const { version, created_at, updated_at, finished_at } = row
  return object({
    id,
    status,
    failure,
    file_name,
    size,
    file_expires_at: sql<
      string | null
    >`case when ${row.storage_key} is not null then ${instantText(row.file_expires_at)} end`,
    format,
    csv,
    project_id,
    existing,
    users: mapped,
    progress: progressJson(row),
    poll_after_seconds: sql<
      number | null
    >`case when ${isImportBusy(row)} then ${sql.raw(String(jobPollSeconds))} end`,
    preview,
    result,
    version,
    revision: revisionOf(row),
    created_at,
    updated_at,
    ended_at: finished_at,
  } satisfies Fields<Schemas['Import']>)
}

/** What became of a row of an import. */
export const importRowJson = (row: typeof importRows): SQL => {
  const { number, outcome, type, source_id, part, field, code, message, resource_id } = row
  return object({
    number,
    outcome,
    type,
    source_id,
    part,
    row: row.row,
    field,
    code,
    message,
    resource_id,
  } satisfies Fields<Schemas['ImportRow']>)
}

const progressJson = ({ done, total }: typeof exports | typeof imports): SQL<Schemas['JobProgress']> =>
  sql`${object({ done, total } satisfies Fields<Schemas['JobProgress']>)}::json`

export const sessionJson = (session: typeof sessions, currentId: SQL): SQL => {
  const { id, created_at, last_used_at, expires_at, user_agent, address } = session
  const isCurrent = sql<boolean>`${id} = ${currentId}`
  const fields = {
    id,
    created_at,
    last_used_at,
    expires_at,
    user_agent,
    address,
    is_current: isCurrent,
  } satisfies Fields<Schemas['Session']>
  return object(fields)
}

export const identityJson = (identity: typeof identities): SQL => {
  const { id, issuer, email, created_at, last_used_at } = identity
  return object({ id, issuer, email, created_at, last_used_at } satisfies Fields<Schemas['Identity']>)
}

export const apiTokenJson = (token: typeof apiTokens): SQL => {
  const { id, name, scopes, created_at, expires_at, last_used_at } = token
  const fields = { id, name, scopes, created_at, expires_at, last_used_at } satisfies Fields<
    Schemas['ApiToken']
  >
  return object(fields)
}

export const invitationJson = (invitation: typeof invitations): SQL => {
  const { id, project_id, email, role, created_at, expires_at } = invitation
  // Not null: an invitation is valid only as long as its sender may manage the project.
  const sender = sql<string>`${invitation.invited_by}`
  const fields = { id, project_id, email, role, invited_by: sender, created_at, expires_at } satisfies Fields<
    Schemas['Invitation']
  >
  return object(fields)
}

/** An invitation, as shown to a holder of its token. */
export const invitationPreviewJson = (
  { role, expires_at }: typeof invitations,
  project: typeof projects,
  sender: typeof users,
  canRegister: SQL<boolean>,
): SQL =>
  object({
    project_name: project.name,
    role,
    invited_by_name: sender.display_name,
    can_register: canRegister,
    expires_at,
  } satisfies Fields<Schemas['InvitationPreview']>)

/** The fields of an occurrence, by their columns. */
const occurrenceFields = {
  series_id: 'series_id',
  occurrence_number: 'number',
  occurrence_at: 'at',
  occurrence_on: 'on',
  next_task_id: 'next_task_id',
} as const satisfies Partial<Record<keyof typeof tasks, keyof NonNullable<Schemas['Occurrence']>>>

/** The values of an event. They are recorded by the names of columns, as before 0.3; the contract's `occurrence` is made on reading. */
const eventValues = (values: SQLWrapper): SQL<Schemas['EventValues']> => {
  const names = sql.raw(`array['${Object.keys(occurrenceFields).join("', '")}']`)
  const pairs = sql.raw(
    Object.entries(occurrenceFields)
      .map((pair) => `('${pair.join("', '")}')`)
      .join(),
  )
  return sql`case when ${values} ?| ${names} then ${values} - ${names} || jsonb_build_object('occurrence',
    case when ${values} -> 'series_id' = 'null' then null else (
      select jsonb_object_agg(field, ${values} -> name) from (values ${pairs}) names(name, field) where ${values} ? name) end)
    else ${values} end`
}

export const eventJson = (event: typeof events): SQL => {
  const { id, type, actor_id, task_id, project_id, resource_id, before, after, created_at } = event
  const fields = {
    id,
    type,
    subject: subjectJson(sql`split_part(${type}, '.', 1)`, eventSubjects, {
      task: task_id,
      comment: resource_id,
      attachment: resource_id,
      project: project_id,
      export: resource_id,
      import: resource_id,
    }),
    actor_id,
    task_id,
    project_id,
    resource_id,
    before: eventValues(before),
    after: eventValues(after),
    created_at,
  } satisfies Fields<Schemas['Event']>
  return object(fields)
}

export const auditEventJson = (event: typeof auditEvents): SQL =>
  object({
    id: event.id,
    action: event.action,
    actor_id: event.actor_id,
    user_id: event.user_id,
    session_id: event.session_id,
    token_id: event.token_id,
    address: event.address,
    user_agent: event.user_agent,
    request_id: event.request_id,
    created_at: event.created_at,
  } satisfies Fields<Schemas['AuditEvent']>)

/** A feed without its URL. */
export const feedJson = (feed: typeof feeds): SQL => {
  const { id, name, filter, kind, alarms, color, version, created_at, updated_at } = feed
  const fields = {
    id,
    name,
    filter,
    kind,
    alarms,
    color,
    version,
    revision: version,
    created_at,
    updated_at,
  } satisfies Fields<Schemas['Feed']>
  return object(fields)
}

/** A webhook without its secret. */
export const webhookJson = (webhook: typeof webhooks): SQL =>
  object({
    id: webhook.id,
    owner_id: webhook.owner_id,
    project_id: webhook.project_id,
    url: webhook.url,
    description: webhook.description,
    event_types: webhook.event_types,
    is_enabled: webhook.is_enabled,
    disabled_reason: webhook.disabled_reason,
    failing_since: webhook.failing_since,
    previous_secret_until: webhook.previous_secret_until,
    version: webhook.version,
    revision: revisionOf(webhook),
    created_at: webhook.created_at,
    updated_at: webhook.updated_at,
  } satisfies Fields<Schemas['Webhook']>)

export const webhookDeliveryJson = (delivery: typeof webhookDeliveries): SQL =>
  object({
    id: delivery.id,
    webhook_id: delivery.webhook_id,
    sequence: delivery.sequence,
    event_id: delivery.event_id,
    event_type: delivery.event_type,
    status: delivery.status,
    attempts: delivery.attempts,
    next_attempt_at: sql<
      string | null
    >`case when ${delivery.status} = 'pending' then ${instantText(delivery.due_at)} end`,
    attempted_at: delivery.attempted_at,
    duration_ms: delivery.duration_ms,
    response_status: delivery.response_status,
    response_body: delivery.response_body,
    error: delivery.error,
    created_at: delivery.created_at,
    ended_at: delivery.ended_at,
  } satisfies Fields<Schemas['WebhookDelivery']>)
