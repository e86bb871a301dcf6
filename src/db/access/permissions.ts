import { type Permission, permissions, type Role } from '../../domain/shared/permissions.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import {
  type attachments,
  type comments,
  type events,
  type exports,
  type imports,
  memberships,
  type notifications,
  projects,
  projectTeams,
  type reminders,
  tagCounts,
  tags,
  tasks,
  teamMembers,
  type teams,
  type users,
  webhooks,
} from '../schema/tables.ts'
import type { ContextPlaceholders } from '../statements/context.ts'
import { nilId } from '../../domain/shared/nil-id.ts'
import { type AccessBranch, onlyBranch, rowsOfMemberships } from './branches.ts'
import {
  hasRole,
  isListLive,
  isMember,
  isProjectLive,
  relationsToSee,
  type AccessRelation,
  accessRelations,
  type TaskPlace,
} from './access-relations.ts'

const membership = aliasedTable(memberships, 'membership')
const shared = aliasedTable(projectTeams, 'shared')
const own = aliasedTable(teamMembers, 'own')
const project = aliasedTable(projects, 'project')
const chosen = aliasedTable(projects, 'chosen')
const counted = aliasedTable(tagCounts, 'counted')
const tag = aliasedTable(tags, 'tag')
/** The rows of lists of tasks and of projects. */
const item = aliasedTable(tasks, 'item')
const projectItem = aliasedTable(projects, 'item')

/** The parameters of the context that a permission check uses. */
export type CallerPlaceholders = Pick<ContextPlaceholders, 'caller' | 'is_admin' | 'in_session'>

type Relations = Readonly<Record<string, SQL>>

const conditionOf = (permission: Permission, relation: string, relations: Relations): SQL => {
  const condition = relations[relation]
  if (condition === undefined) throw new Error(`${permission} has no ${relation} here`)
  return condition
}

/** Whether the caller has one of the permission's relations. */
const allowed = (permission: Permission, relations: Relations): SQL => {
  const conditions = permissions[permission].map((relation) => conditionOf(permission, relation, relations))
  return sql`(${sql.join(conditions, sql` or `)})`
}

/** Whether the caller has the permission on the row `user`. */
export const allowsUser = (permission: Permission, caller: CallerPlaceholders, user: typeof users): SQL =>
  unlessDeleted(permission === 'user.see', user.deleted_at, allowedUser(permission, caller, user))

/** Nobody can see a deleted row. Other permissions are checked only on visible rows. */
const unlessDeleted = (isToSee: boolean, deletedAt: SQLWrapper, condition: SQL): SQL =>
  isToSee ? sql`(${deletedAt} is null and ${condition})` : condition

const allowedUser = (permission: Permission, caller: CallerPlaceholders, user: typeof users): SQL =>
  allowed(permission, {
    signed_in: sql`true`,
    self: sql`${user.id} = ${caller.caller}`,
    self_in_session: sql`(${user.id} = ${caller.caller} and ${caller.in_session})`,
    admin: caller.is_admin,
    admin_in_session: sql`(${caller.is_admin} and ${caller.in_session})`,
    another_admin: sql`(${caller.is_admin} and ${user.id} <> ${caller.caller})`,
  })

/** Whether the caller has the permission on a session or API token of the user with an id. */
export const allowsOwn = (permission: Permission, caller: CallerPlaceholders, userId: SQLWrapper): SQL =>
  allowed(permission, { self: sql`${userId} = ${caller.caller}`, admin: caller.is_admin })

/** Whether a project can be restored from the trash. */
export const isProjectInTrash = ({ deleted_at, purged_at, filling_import_id }: typeof projects): SQL =>
  sql`(${deleted_at} is not null and ${purged_at} is null and ${filling_import_id} is null)`

/**
 * Whether the caller has the permission on the row `project`. A project in the trash has no memberships; its managers are found
 * by their grants.
 */
export const allowsProject = (
  permission: Permission,
  caller: CallerPlaceholders,
  project: typeof projects,
): SQL => {
  const { id, deleted_at } = project
  if (permission.startsWith('project_trash.')) {
    const manager = sql`exists (
      select from project_grants granted
      where granted.project_id = ${id} and granted.user_id = ${caller.caller} and ${hasRole(sql`granted.role`, 'manager')})`
    return sql`(${isProjectInTrash(project)} and ${allowed(permission, { manager, admin: caller.is_admin })})`
  }
  const as = (role: ProjectRole): SQL => isMember(id, caller.caller, role)
  const relations = {
    viewer: as('viewer'),
    editor: as('editor'),
    manager: as('manager'),
    admin: caller.is_admin,
  }
  return sql`(${deleted_at} is null and ${allowed(permission, relations)})`
}

/** Whether the caller sees the project with an id. Not correlated to a row, so that a list evaluates it once. */
export const seesProject = (caller: CallerPlaceholders, projectId: SQLWrapper): SQL => sql`exists (
  select from projects project
  where ${project.id} = ${projectId} and ${allowsProject('project.see', caller, project)})`

/** Access branches for the projects `item` that pass `project.see`. */
export const projectBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  if (role === 'admin') return onlyBranch(sql`${projectItem.deleted_at} is null`)
  const memberProjects = sql`(
    select project.* from memberships membership join projects project on ${project.id} = ${membership.project_id}
    where ${membership.user_id} = ${caller.caller}) item`
  return [{ select: (rows) => rows(sql`true`, { from: memberProjects }) }]
}

/** Whether the caller has the permission on the row `team`. */
export const allowsTeam = (permission: Permission, caller: CallerPlaceholders, team: typeof teams): SQL =>
  allowed(permission, teamRelations(caller, team))

const teamRelations = (caller: CallerPlaceholders, team: typeof teams) => {
  const isInTeam = (condition: SQL): SQL => sql`exists (
    select from team_members own
    where ${own.team_id} = ${team.id} and ${own.user_id} = ${caller.caller} and ${condition})`
  return {
    member: isInTeam(sql`true`),
    manager: isInTeam(sql`${own.role} = 'manager'`),
    shares_project: sql`exists (
      select from project_teams shared join memberships membership on ${membership.project_id} = ${shared.project_id}
      where ${shared.team_id} = ${team.id} and ${membership.user_id} = ${caller.caller})`,
    admin: caller.is_admin,
  }
}

/** Access branches for the teams `item` that pass `team.see`. */
export const teamBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  if (role === 'admin') return onlyBranch(sql`true`)
  const visibleTeams = sql`(
    select * from teams where id in (
      select team_id from team_members where user_id = ${caller.caller}
      union
      select ${shared.team_id} from memberships membership
        join project_teams shared on ${shared.project_id} = ${membership.project_id}
      where ${membership.user_id} = ${caller.caller})) item`
  return [{ select: (rows) => rows(sql`true`, { from: visibleTeams }) }]
}

/** Access branches for the projects `item` that pass `project_trash.see`. */
export const trashedProjectBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const isInTrash = isProjectInTrash(projectItem)
  if (role === 'admin') return onlyBranch(isInTrash)
  const managed = sql`
    select granted.project_id from project_grants granted
    where granted.user_id = ${caller.caller} and ${hasRole(sql`granted.role`, 'manager')}`
  return onlyBranch(sql`${isInTrash} and ${projectItem.id} in (${managed})`)
}

/** Whether the caller has the permission on the row `webhook`. */
export const allowsWebhook = (
  permission: Permission,
  caller: CallerPlaceholders,
  webhook: typeof webhooks,
): SQL => {
  const { owner_id, project_id, deleted_at } = webhook
  const relations = {
    owner: sql`(${owner_id} = ${caller.caller} and ${project_id} is null)`,
    manager: isMember(project_id, caller.caller, 'manager'),
    admin: sql`(${caller.is_admin} and ${isListLive(webhook)})`,
  }
  return unlessDeleted(permission === 'webhook.see', deleted_at, allowed(permission, relations))
}

/** Access branches for the webhooks `item` that pass `webhook.see`. */
export const webhookBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const item = aliasedTable(webhooks, 'item')
  const { owner_id, project_id, deleted_at } = item
  const isNotDeleted = sql`${deleted_at} is null`
  if (role === 'admin') return onlyBranch(sql`${isNotDeleted} and ${isListLive(item)}`)
  const isManager = hasRole(membership.role, 'manager')
  const isInMemberProject = sql`${isNotDeleted} and ${project_id} = ${membership.project_id}`
  return [
    ...onlyBranch(sql`${isNotDeleted} and ${owner_id} = ${caller.caller} and ${project_id} is null`),
    {
      select: (rows, first) =>
        rowsOfMemberships(caller.caller, isManager, (options) => rows(isInMemberProject, options), first),
      isRepeated: sql`false`,
    },
  ]
}

/** Whether the caller has the permission on the audit trail. */
export const allowsAudit = (permission: Permission, caller: CallerPlaceholders): SQL =>
  allowed(permission, { admin: caller.is_admin })

/** Whether the caller has the permission on the row `task`. `task.see` and `trash.see` are mutually exclusive. */
export const allowsTask = (permission: Permission, caller: CallerPlaceholders, task: typeof tasks): SQL =>
  withTrashState(permission, task, allowed(permission, relationsOf(caller, task)))

/** Access branches for the tasks `item` that pass the permission. An administrator has a single branch: all tasks. */
export const taskBranches = (
  permission: 'task.see' | 'trash.see',
  role: Role,
  caller: CallerPlaceholders,
): readonly AccessBranch[] => {
  if (role === 'admin') return onlyBranch(withTrashState(permission, item, isListLive(item)))
  const relations = relationsToSee(permission).map((name) => accessRelations[name])
  return branchesOf(relations, caller, (condition) => withTrashState(permission, item, condition))
}

/** An access branch for each relation of the caller to the tasks `item`. `restrict` adds a condition to each branch. */
const branchesOf = (
  relations: readonly AccessRelation[],
  { caller }: CallerPlaceholders,
  restrict: (condition: SQL) => SQL,
): readonly AccessBranch[] =>
  relations.map(({ branch, holds, beganIn }, index) => {
    const earlier = relations.slice(0, index).map(({ holdsIfVisible }) => holdsIfVisible(item, caller))
    return {
      select: (rows, first) =>
        branch(caller, (condition, options) => rows(restrict(condition), options), first),
      holds: restrict(holds(item, caller)),
      ...(earlier.length > 0 && { isRepeated: sql`(${sql.join(earlier, sql` or `)})` }),
      ...(beganIn !== null && { beganIn }),
    }
  })

/** Access branches for the change feed, which also sends administrators the projects restored since the transaction `since`. */
export const changeBranches = (
  role: Role,
  caller: CallerPlaceholders,
  since: SQL,
): readonly AccessBranch[] => {
  if (role === 'member') return taskBranches('task.see', role, caller)
  const isRestored = sql`(${project.visible_in} >= ${since} and ${project.deleted_at} is null)`
  const isInRestoredProject = sql`exists (
    select from projects project where ${project.id} = ${item.project_id} and ${isRestored})`
  return [
    ...onlyBranch(withTrashState('task.see', item, sql`${isListLive(item)} and not ${isInRestoredProject}`)),
    {
      select: (rows) => sql`
        select reached.* from projects project
          cross join lateral (${rows(withTrashState('task.see', item, sql`${item.project_id} = ${project.id}`))}) reached
        where ${isRestored}`,
      beganIn: sql`${project.visible_in}`,
    },
  ]
}

/**
 * Access branches for the tasks `item` of these projects that the caller can see. Each reads only the tasks of these projects,
 * and checks membership once per project.
 */
export const branchesOfProjects = (
  ids: SQL,
  role: Role,
  caller: CallerPlaceholders,
): readonly AccessBranch[] => {
  const { project_id, assignee_id } = item
  const isVisibleInProject = (id: SQLWrapper, condition: SQL): SQL =>
    withTrashState('task.see', item, sql`${project_id} = ${id} and ${condition}`)
  const isOfProjects = (condition: SQL): SQL =>
    withTrashState('task.see', item, sql`${project_id} = any(${ids}) and ${condition}`)
  const projectBranch = (isChosen: SQL, condition: SQL): AccessBranch => ({
    select: (rows) => sql`
      select reached.* from projects chosen cross join lateral (${rows(isVisibleInProject(chosen.id, condition))}) reached
      where ${chosen.id} = any(${ids}) and ${chosen.deleted_at} is null and ${isChosen}`,
    holds: isOfProjects(sql`${isProjectLive(project_id)} and ${condition}`),
  })
  if (role === 'admin') return [projectBranch(sql`true`, sql`true`)]
  const memberBranch: AccessBranch = {
    select: (rows, first) =>
      rowsOfMemberships(
        caller.caller,
        sql`${membership.project_id} = any(${ids})`,
        (options) => rows(isVisibleInProject(membership.project_id, sql`true`), options),
        first,
      ),
    holds: isOfProjects(isMember(project_id, caller.caller, 'viewer')),
  }
  const isOutside = sql`not ${isMember(chosen.id, caller.caller, 'viewer')}`
  return [memberBranch, projectBranch(isOutside, sql`${assignee_id} = ${caller.caller}`)]
}

/** Access branches for the personal tasks `item` that the caller can see. */
export const personalBranches = (caller: CallerPlaceholders): readonly AccessBranch[] =>
  branchesOf([accessRelations.owner, accessRelations.assignee], caller, (condition) =>
    withTrashState('task.see', item, sql`${item.project_id} is null and ${condition}`),
  )

/** A column of tasks that refers to a user and by which tasks are listed. */
export type PersonColumn = 'owner_id' | 'assignee_id'

/** Access branches for the tasks `item` that the caller can see and that have `user` in one of these columns. */
export const personBranches = (
  columns: readonly PersonColumn[],
  user: SQL,
  caller: CallerPlaceholders,
): readonly AccessBranch[] =>
  columns.map((name, index) => {
    const is = (column: PersonColumn): SQL => sql`${item[column]} = ${user}`
    const earlier = columns.slice(0, index).map(is)
    const holds = sql`${is(name)} and ${allowsTask('task.see', caller, item)}`
    return {
      select: (rows) => rows(holds),
      holds,
      ...(earlier.length > 0 && { isRepeated: sql`coalesce(${sql.join(earlier, sql` or `)}, false)` }),
    }
  })

/** Access branches for the tasks `item` of a few parents or series that the caller can see. */
export const branchesOfGroup = (
  group: SQLWrapper,
  ids: SQL,
  caller: CallerPlaceholders,
): readonly AccessBranch[] =>
  onlyBranch(sql`${group} = any(${ids}) and ${allowsTask('task.see', caller, item)}`)

/** The same caller without the role of an administrator. */
const withoutRole = (caller: CallerPlaceholders): CallerPlaceholders => ({ ...caller, is_admin: sql`false` })

/** Whether an administrator sees the row `task`, which can be in the trash, only by their role. */
export const isTaskSeenByRole = (caller: CallerPlaceholders, task: typeof tasks): SQL => {
  const user = withoutRole(caller)
  return sql`(${allowsTask('task.see', user, task)} or ${allowsTask('trash.see', user, task)}) is not true`
}

/** Whether an administrator sees the row `project`, which can be in the trash, only by their role. */
export const isProjectSeenByRole = (caller: CallerPlaceholders, project: typeof projects): SQL => {
  const user = withoutRole(caller)
  return sql`(${allowsProject('project.see', user, project)} or ${allowsProject('project_trash.see', user, project)}) is not true`
}

/**
 * `task.see` and `trash.see` also check whether the task is in the trash. Other permissions are checked only on visible
 * tasks.
 */
const withTrashState = (permission: Permission, task: typeof tasks, condition: SQL): SQL => {
  const { deleted_at } = task
  if (permission === 'task.see') return sql`(${deleted_at} is null and ${condition})`
  if (permission === 'trash.see') return sql`(${deleted_at} is not null and ${condition})`
  return condition
}

const relationsOf = (caller: CallerPlaceholders, task: TaskPlace): Relations => ({
  ...Object.fromEntries(
    Object.entries(accessRelations).map(([name, { holds }]) => [name, holds(task, caller.caller)]),
  ),
  admin: sql`(${caller.is_admin} and ${isListLive(task)})`,
})

/** Whether the caller sees the task with an id. */
export const seesTask = (caller: CallerPlaceholders, taskId: SQLWrapper): SQL =>
  sql`exists (select from tasks where ${tasks.id} = ${taskId} and ${allowsTask('task.see', caller, tasks)})`

/**
 * Whether the caller sees the row `event` of a task that is not in the trash. An event of a relation requires seeing both tasks.
 * If `taskId` does not depend on the row, a list checks the task once.
 */
export const seesEventOfTask = (
  caller: CallerPlaceholders,
  event: typeof events,
  taskId: SQLWrapper,
): SQL => {
  const { type, resource_id } = event
  return sql`(${seesTask(caller, taskId)} and case when ${type} in ('task.related', 'task.unrelated')
    then ${seesTask(caller, resource_id)} else true end)`
}

/**
 * Whether the caller sees the row `event` of `events`. Of a task or project in the trash, only the deletion is visible: to users
 * who saw the task in the state that the event records, or who had a role in the project.
 */
export const allowsEvent = (
  permission: Permission,
  caller: CallerPlaceholders,
  event: typeof events,
): SQL => {
  const { type, task_id, project_id, assignee_id, recipient_id } = event
  const isListed = sql`exists (select from tasks where ${tasks.id} = ${task_id} and ${tasks.deleted_at} is null)`
  const wasGranted = sql`exists (
    select from projects join project_grants granted on granted.project_id = ${projects.id}
    where ${projects.id} = ${project_id} and ${projects.deleted_at} is not null and ${projects.purged_at} is null
      and (${caller.is_admin} or granted.user_id = ${caller.caller}))`
  // Unlike the current rule, this ignores whether the owner is being deleted, since that is how an assignee loses the task.
  const wasAssigned = sql`(${assignee_id} = ${caller.caller}
    and (${project_id} is null or ${isProjectLive(project_id)}))`
  const sawTask = allowed('task.see', { ...relationsOf(caller, event), assignee: wasAssigned })
  // Nobody but the recipient, not even by a role.
  const isForCaller = sql`(${recipient_id} is null or (${recipient_id} = ${caller.caller} and not ${caller.is_admin}))`
  return sql`(${isForCaller} and ${allowed(permission, {
    sees_task: sql`(${task_id} is not null and ${seesEventOfTask(caller, event, task_id)})`,
    sees_project: sql`(${task_id} is null and ${seesProject(caller, project_id)})`,
    recipient: sql`(${task_id} is null and ${project_id} is null and ${recipient_id} = ${caller.caller})`,
    sees_deleted: sql`case ${type}
      when 'task.deleted' then not ${isListed} and ${sawTask}
      when 'project.deleted' then ${wasGranted} else false end`,
  })})`
}

/** Selects, as `user_id`, a superset of the users who see the row `event` of `events`, apart from administrators. */
export const usersOfEvent = (event: typeof events): SQL => {
  const { task_id, project_id, owner_id, assignee_id, recipient_id } = event
  const taskValue = (value: SQLWrapper): SQL => sql`select ${value} from tasks where ${tasks.id} = ${task_id}`
  return sql`
    select user_id from project_grants where project_id in (${project_id}, (${taskValue(tasks.project_id)}))
    union ${taskValue(tasks.owner_id)} union ${taskValue(tasks.assignee_id)}
    union values (${owner_id}), (${assignee_id}), (${recipient_id})`
}

/** Selects the ids of the users, as `user_id`, who see the row `event` of `events`. */
export const viewersOfEvent = (event: typeof events): SQL => {
  const caller = { caller: sql`viewer.user_id`, is_admin: sql`false`, in_session: sql`false` }
  return sql`
    select viewer.user_id from (${usersOfEvent(event)}) viewer
    where viewer.user_id is not null and ${allowsEvent('event.see', caller, event)}`
}

/** Whether the caller has the permission on the row `attachment` of the row `task`. */
export const allowsAttachment = (
  permission: Permission,
  caller: CallerPlaceholders,
  attachment: typeof attachments,
  task: typeof tasks,
): SQL =>
  allowed(permission, {
    ...relationsThroughTask(caller, task),
    uploader: sql`${attachment.uploaded_by} = ${caller.caller}`,
    task_owner: sql`${task.owner_id} = ${caller.caller}`,
    manager: accessRelations.manager.holds(task, caller.caller),
    admin: caller.is_admin,
  })

/** Whether the caller has the permission on the row `comment` of the row `task`. */
export const allowsComment = (
  permission: Permission,
  caller: CallerPlaceholders,
  comment: typeof comments,
  task: typeof tasks,
): SQL =>
  allowed(permission, {
    ...relationsOf(caller, task),
    ...relationsThroughTask(caller, task),
    author: sql`${comment.author_id} = ${caller.caller}`,
  })

/** Whether the user of the row `person` sees the row `task`. */
export const isSeenBy = (person: typeof users, task: typeof tasks): SQL =>
  allowsTask(
    'task.see',
    { caller: sql`${person.id}`, is_admin: sql`${person.role} = 'admin'`, in_session: sql`false` },
    task,
  )

/** Whether the caller has the permission on the row `reminder`. It requires that they still see its task. */
export const allowsReminder = (
  permission: Permission,
  caller: CallerPlaceholders,
  { user_id, task_id }: typeof reminders,
): SQL =>
  allowed(permission, {
    recipient: sql`(${user_id} = ${caller.caller} and ${seesTask(caller, task_id)})`,
  })

/** Whether the caller has the permission on the row `notification`. It requires that they still see its task, if it has one. */
export const allowsNotification = (
  permission: Permission,
  caller: CallerPlaceholders,
  { user_id, task_id }: typeof notifications,
): SQL =>
  allowed(permission, {
    recipient: sql`(${user_id} = ${caller.caller} and (${task_id} is null or ${seesTask(caller, task_id)}))`,
  })

/** Whether the caller has the permission on the row of `exports`. */
export const allowsExport = (
  permission: Permission,
  caller: CallerPlaceholders,
  { requested_by }: typeof exports,
): SQL => allowed(permission, { self: sql`${requested_by} = ${caller.caller}` })

/** Whether the caller has the permission on the row of `imports`. */
export const allowsImport = (
  permission: Permission,
  caller: CallerPlaceholders,
  { user_id, deleted_at }: typeof imports,
): SQL => allowed(permission, { self: sql`(${user_id} = ${caller.caller} and ${deleted_at} is null)` })

/** Whether the caller has the permission on the tags of the row `task`. */
export const allowsTaskTag = (permission: Permission, caller: CallerPlaceholders, task: typeof tasks): SQL =>
  allowed(permission, relationsThroughTask(caller, task))

/** Whether the caller has the permission on the row `tag`. */
export const allowsTag = (permission: Permission, caller: CallerPlaceholders, tag: typeof tags): SQL =>
  unlessDeleted(permission === 'tag.see', tag.deleted_at, allowed(permission, tagRelations(caller, tag)))

/**
 * Whether a row of `tag_counts` counts tasks that the reader can see: as a member of their project, or as an assignee elsewhere
 * (`task_viewers`). Each task that a member can see is counted in exactly one such row.
 */
const isCountOfReader = (caller: CallerPlaceholders, row: typeof tagCounts): SQL => {
  const { project_id, user_id } = row
  const isOfMember = isMember(project_id, caller.caller, 'viewer')
  const isOfAssignee = sql`${project_id} is null or (not ${isOfMember} and ${isProjectLive(project_id)})`
  return sql`case when ${user_id} is null then ${isOfMember} else ${user_id} = ${caller.caller} and (${isOfAssignee}) end`
}

/** Whether the caller sees, as a member or an assignee, a task that has the row `tag`. */
export const seesTaggedTask = (caller: CallerPlaceholders, tag: typeof tags): SQL => sql`exists (
  select from tag_counts counted
  where ${counted.tag_id} = ${tag.id} and ${isCountOfReader(caller, counted)})`

/** The number of tasks with the tag that the reader can see. */
export const countTasksOfTag = (tag: typeof tags, role: Role, caller: CallerPlaceholders): SQL<number> => {
  const { tasks, project_id, user_id, tag_id } = counted
  const isInTrash = sql`${project_id} is not null and not ${isProjectLive(project_id)}`
  // Administrators see everything but the projects in the trash.
  const count =
    role === 'admin'
      ? sql`case when ${user_id} is not null then 0 when ${project_id} is null then ${tasks} when ${isInTrash} then -${tasks} end`
      : sql`case when ${isCountOfReader(caller, counted)} then ${tasks} end`
  return sql`coalesce((select sum(${count})::int from tag_counts counted where ${tag_id} = ${tag.id}), 0)`
}

/**
 * Access branches for the tags `item` that pass `tag.see`: the caller's own tags, those of their projects, and tags on tasks
 * that they can see. The latter are read from `tag_counts`, which triggers maintain, in list order.
 */
export const tagBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const item = aliasedTable(tags, 'item')
  const other = aliasedTable(tagCounts, 'other')
  const isNotDeleted = sql`${item.deleted_at} is null`
  if (role === 'admin') return onlyBranch(isNotDeleted)
  const { owner, viewer } = tagRelations(caller, item)
  const { tag_id, project_id, user_id, created_at } = counted
  const placeOf = (row: typeof tagCounts): SQL => sql`coalesce(${row.project_id}, ${sql.raw(`'${nilId}'`)})`
  // A tag with several rows is read from the first. OFFSET keeps the planner from reading all tags for the join.
  const carried = (isOfViewer: SQL): SQL => sql`(
    select ${tag_id} as id, ${tag.name}, ${tag.canonical_name}, ${tag.name_folded}, ${tag.color}, ${tag.owner_id},
      ${tag.project_id}, ${created_at}, ${tag.deleted_at}
    from tag_counts counted cross join lateral (select * from tags where ${tags.id} = ${tag_id} offset 0) tag
    where ${isOfViewer} and ${isCountOfReader(caller, counted)} and not exists (
      select from tag_counts other
      where ${other.tag_id} = ${tag_id} and ${isCountOfReader(caller, other)}
        and ${placeOf(other)} < ${placeOf(counted)})) item`
  const membershipRows = (rows: SQL): SQL => rowsOfMemberships(caller.caller, sql`true`, () => rows, null)
  const isCountOfCaller = sql`${user_id} = ${caller.caller}`
  const isCountOfProject = sql`${user_id} is null and ${project_id} = ${membership.project_id}`
  const isSeenOtherwise = sql`(${owner} or ${viewer})`
  return [
    ...onlyBranch(sql`${isNotDeleted} and ${owner}`),
    {
      select: (rows) =>
        membershipRows(rows(sql`${isNotDeleted} and ${item.project_id} = ${membership.project_id}`)),
    },
    {
      select: (rows) => rows(isNotDeleted, { from: carried(isCountOfCaller) }),
      isRepeated: isSeenOtherwise,
    },
    {
      select: (rows) => membershipRows(rows(isNotDeleted, { from: carried(isCountOfProject) })),
      isRepeated: isSeenOtherwise,
    },
  ]
}

/**
 * `tag_counts` tells whether the caller sees a task with the tag, since the number of such tasks is unbounded. As in the list of
 * tags, the tasks of a deleted user count until they are purged.
 */
const tagRelations = (caller: CallerPlaceholders, tag: typeof tags) => {
  const { owner_id, project_id } = tag
  return {
    owner: sql`(${owner_id} = ${caller.caller} and ${project_id} is null)`,
    viewer: isMember(project_id, caller.caller, 'viewer'),
    editor: isMember(project_id, caller.caller, 'editor'),
    sees_tagged_task: seesTaggedTask(caller, tag),
    admin: caller.is_admin,
  }
}

const relationsThroughTask = (caller: CallerPlaceholders, task: typeof tasks): Relations => ({
  sees_task: allowsTask('task.see', caller, task),
  changes_task: allowsTask('task.change', caller, task),
})
