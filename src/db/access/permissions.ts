import { type Permission, permissions, type Role } from '../../domain/permissions.ts'
import type { ProjectRole } from '../../domain/project-roles.ts'
import { columnsOf } from '../schema/columns.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { ContextPlaceholders } from '../engine/context.ts'
import { type AccessBranch, onlyBranch, rowsOfMemberships } from './branches.ts'
import {
  hasRole,
  isInUse,
  isMember,
  isProjectInUse,
  relationsToSee,
  type TaskRelation,
  taskRelations,
} from './task-relations.ts'

/** What a permission check reads of the operation's context. */
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
export const allowsUser = (permission: Permission, caller: CallerPlaceholders, user: SQL): SQL =>
  unlessDeleted(permission === 'user.see', user, allowedUser(permission, caller, user))

/** Nobody can see a deleted row. Other permissions are checked only on visible rows. */
const unlessDeleted = (isToSee: boolean, row: SQL, condition: SQL): SQL =>
  isToSee ? sql`(${row}.deleted_at is null and ${condition})` : condition

const allowedUser = (permission: Permission, caller: CallerPlaceholders, user: SQL): SQL =>
  allowed(permission, {
    signed_in: sql`true`,
    self: sql`${user}.id = ${caller.caller}`,
    self_in_session: sql`(${user}.id = ${caller.caller} and ${caller.in_session})`,
    admin: caller.is_admin,
    admin_in_session: sql`(${caller.is_admin} and ${caller.in_session})`,
    another_admin: sql`(${caller.is_admin} and ${user}.id <> ${caller.caller})`,
  })

/** Whether the caller has the permission on a session or API token of the user `row.user_id`. */
export const allowsOwn = (permission: Permission, caller: CallerPlaceholders, row: SQL): SQL =>
  allowed(permission, { self: sql`${row}.user_id = ${caller.caller}`, admin: caller.is_admin })

/**
 * Whether the caller has the permission on the row `project`. A project in the trash has no members: who managed it is read
 * from what they were granted.
 */
export const allowsProject = (permission: Permission, caller: CallerPlaceholders, project: SQL): SQL => {
  const { id, deleted_at, purged_at } = columnsOf<'projects'>(project)
  if (permission.startsWith('project_trash.')) {
    const manager = sql`exists (
      select from project_grants granted
      where granted.project_id = ${id} and granted.user_id = ${caller.caller} and ${hasRole(sql`granted`, 'manager')})`
    const isInTrash = sql`${deleted_at} is not null and ${purged_at} is null`
    return sql`(${isInTrash} and ${allowed(permission, { manager, admin: caller.is_admin })})`
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

/** Whether the caller has the permission on the access of the user `userId` to the row `project`. */
export const allowsProjectMember = (
  permission: Permission,
  caller: CallerPlaceholders,
  project: SQL,
  userId: SQL,
): SQL =>
  allowed(permission, {
    self: sql`${userId} = ${caller.caller}`,
    manager: isMember(sql`${project}.id`, caller.caller, 'manager'),
    admin: caller.is_admin,
  })

/** Access branches for the projects `item` that pass `project.see`. */
export const projectBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  if (role === 'admin') return onlyBranch(sql`item.deleted_at is null`)
  const ofCaller = sql`(
    select project.* from memberships membership join projects project on project.id = membership.project_id
    where membership.user_id = ${caller.caller}) item`
  return [{ select: (rows) => rows(sql`true`, { from: ofCaller }), isRepeated: sql`false`, beganIn: null }]
}

/** Whether the caller has the permission on the row `team`. */
export const allowsTeam = (permission: Permission, caller: CallerPlaceholders, team: SQL): SQL =>
  allowed(permission, teamRelations(caller, team))

/** Whether the caller has the permission on the membership of the user `userId` in the row `team`. */
export const allowsTeamMember = (
  permission: Permission,
  caller: CallerPlaceholders,
  team: SQL,
  userId: SQL,
): SQL => allowed(permission, { ...teamRelations(caller, team), self: sql`${userId} = ${caller.caller}` })

const teamRelations = (caller: CallerPlaceholders, team: SQL) => {
  const isInTeam = (condition: SQL): SQL => sql`exists (
    select from team_members own
    where own.team_id = ${team}.id and own.user_id = ${caller.caller} and ${condition})`
  return {
    member: isInTeam(sql`true`),
    manager: isInTeam(sql`own.role = 'manager'`),
    shares_project: sql`exists (
      select from project_teams shared join memberships membership on membership.project_id = shared.project_id
      where shared.team_id = ${team}.id and membership.user_id = ${caller.caller})`,
    admin: caller.is_admin,
  }
}

/** Access branches for the teams `item` that pass `team.see`. */
export const teamBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  if (role === 'admin') return onlyBranch(sql`true`)
  const ofCaller = sql`(
    select * from teams where id in (
      select team_id from team_members where user_id = ${caller.caller}
      union
      select shared.team_id from memberships membership
        join project_teams shared on shared.project_id = membership.project_id
      where membership.user_id = ${caller.caller})) item`
  return [{ select: (rows) => rows(sql`true`, { from: ofCaller }), isRepeated: sql`false`, beganIn: null }]
}

/** Access branches for the projects `item` that pass `project_trash.see`. */
export const trashedProjectBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const { id, deleted_at, purged_at } = columnsOf<'projects'>(sql`item`)
  const isInTrash = sql`${deleted_at} is not null and ${purged_at} is null`
  if (role === 'admin') return onlyBranch(isInTrash)
  const managed = sql`
    select granted.project_id from project_grants granted
    where granted.user_id = ${caller.caller} and ${hasRole(sql`granted`, 'manager')}`
  return onlyBranch(sql`${isInTrash} and ${id} in (${managed})`)
}

/** Whether the caller has the permission on the audit trail. */
export const allowsAudit = (permission: Permission, caller: CallerPlaceholders): SQL =>
  allowed(permission, { admin: caller.is_admin })

/** Whether the caller has the permission on the row `task`. `task.see` and `trash.see` are mutually exclusive. */
export const allowsTask = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  withTrashState(permission, task, allowed(permission, relationsOf(caller, task)))

/** Access branches for the tasks `item` that pass the permission. An administrator has a single branch: all tasks. */
export const taskBranches = (
  permission: 'task.see' | 'trash.see',
  role: Role,
  caller: CallerPlaceholders,
): readonly AccessBranch[] => {
  const item = sql`item`
  if (role === 'admin') return onlyBranch(withTrashState(permission, item, isInUse(item)))
  const relations = relationsToSee(permission).map((name): TaskRelation => taskRelations[name])
  return relations.map(({ branch, beganIn }, index) => {
    const earlier = relations.slice(0, index).map(({ holds }) => holds(item, caller.caller))
    return {
      select: (rows, first) =>
        branch(
          caller.caller,
          (condition, options) => rows(withTrashState(permission, item, condition), options),
          first,
        ),
      isRepeated: sql`coalesce(${sql.join([sql`false`, ...earlier], sql` or `)}, false)`,
      beganIn,
    }
  })
}

/** Access branches for the change feed, which also tells administrators of projects restored since the transaction `since`. */
export const changeBranches = (
  role: Role,
  caller: CallerPlaceholders,
  since: SQL,
): readonly AccessBranch[] => {
  if (role === 'member') return taskBranches('task.see', role, caller)
  const item = sql`item`
  const isRestored = sql`(project.visible_in >= ${since} and project.deleted_at is null)`
  const ofRestored = sql`exists (select from projects project where project.id = item.project_id and ${isRestored})`
  return [
    ...onlyBranch(withTrashState('task.see', item, sql`${isInUse(item)} and not ${ofRestored}`)),
    {
      select: (rows) => sql`
        select reached.* from projects project
          cross join lateral (${rows(withTrashState('task.see', item, sql`item.project_id = project.id`))}) reached
        where ${isRestored}`,
      isRepeated: sql`false`,
      beganIn: sql`project.visible_in`,
    },
  ]
}

/**
 * Access branches for the tasks `item` of these projects that the caller can see. Each reads the tasks of these projects alone,
 * and asks once for each project whether the caller is a member.
 */
export const branchesOfProjects = (
  ids: SQL,
  role: Role,
  caller: CallerPlaceholders,
): readonly AccessBranch[] => {
  const ofProject = (id: SQL, condition: SQL): SQL =>
    withTrashState('task.see', sql`item`, sql`item.project_id = ${id} and ${condition}`)
  const ofEach = (isChosen: SQL, condition: SQL): AccessBranch => ({
    select: (rows) => sql`
      select reached.* from projects chosen cross join lateral (${rows(ofProject(sql`chosen.id`, condition))}) reached
      where chosen.id = any(${ids}) and chosen.deleted_at is null and ${isChosen}`,
    isRepeated: sql`false`,
    beganIn: null,
  })
  if (role === 'admin') return [ofEach(sql`true`, sql`true`)]
  const ofMember: AccessBranch = {
    select: (rows, first) =>
      rowsOfMemberships(
        caller.caller,
        sql`membership.project_id = any(${ids})`,
        (options) => rows(ofProject(sql`membership.project_id`, sql`true`), options),
        first,
      ),
    isRepeated: sql`false`,
    beganIn: null,
  }
  const isOutside = sql`not ${isMember(sql`chosen.id`, caller.caller, 'viewer')}`
  return [ofMember, ofEach(isOutside, sql`item.assignee_id = ${caller.caller}`)]
}

/** Access branches for the personal tasks `item` that the caller can see. */
export const personalBranches = (caller: CallerPlaceholders): readonly AccessBranch[] => {
  const item = sql`item`
  const { owner } = taskRelations
  const isPersonal = (condition: SQL): SQL =>
    withTrashState('task.see', item, sql`item.project_id is null and ${condition}`)
  const isAssignee = sql`item.assignee_id = ${caller.caller} and ${isInUse(item)}`
  return [
    ...onlyBranch(isPersonal(owner.holds(item, caller.caller))),
    {
      select: (rows) => rows(isPersonal(isAssignee)),
      isRepeated: owner.holds(item, caller.caller),
      beganIn: null,
    },
  ]
}

/** A part that people have in tasks, by which tasks are listed. */
export type PersonColumn = 'owner_id' | 'assignee_id'

/** Access branches for the tasks `item` that the caller can see and in which `user` has one of these parts. */
export const personBranches = (
  columns: readonly PersonColumn[],
  user: SQL,
  caller: CallerPlaceholders,
): readonly AccessBranch[] =>
  columns.map((name, index) => {
    const is = (column: PersonColumn): SQL => sql`item.${sql.raw(column)} = ${user}`
    const earlier = columns.slice(0, index).map(is)
    return {
      select: (rows) => rows(sql`${is(name)} and ${allowsTask('task.see', caller, sql`item`)}`),
      isRepeated: sql`coalesce(${sql.join([sql`false`, ...earlier], sql` or `)}, false)`,
      beganIn: null,
    }
  })

/** The id of the task's owner if only the administrator role grants the permission; otherwise null. */
export const ownerReadByAdmin = (
  permission: 'task.see' | 'trash.see',
  caller: CallerPlaceholders,
  task: SQL,
): SQL => {
  const conditions = relationsToSee(permission).map((name) => taskRelations[name].holds(task, caller.caller))
  return sql`case when ${caller.is_admin} and (${sql.join(conditions, sql` or `)}) is not true then ${task}.owner_id::text end`
}

/**
 * `task.see` and `trash.see` also check whether the task is in the trash. Other permissions are checked only on visible
 * tasks.
 */
const withTrashState = (permission: Permission, task: SQL, condition: SQL): SQL => {
  if (permission === 'task.see') return sql`(${task}.deleted_at is null and ${condition})`
  if (permission === 'trash.see') return sql`(${task}.deleted_at is not null and ${condition})`
  return condition
}

const relationsOf = (caller: CallerPlaceholders, task: SQL): Relations => ({
  ...Object.fromEntries(
    Object.entries(taskRelations).map(([name, { holds }]) => [name, holds(task, caller.caller)]),
  ),
  admin: sql`(${caller.is_admin} and ${isInUse(task)})`,
})

/** Whether the caller has the permission on the row `attachment` of the row `task`. */
export const allowsAttachment = (
  permission: Permission,
  caller: CallerPlaceholders,
  attachment: SQL,
  task: SQL,
): SQL =>
  allowed(permission, {
    ...relationsThroughTask(caller, task),
    uploader: sql`${attachment}.uploaded_by = ${caller.caller}`,
    task_owner: sql`${task}.owner_id = ${caller.caller}`,
    manager: taskRelations.manager.holds(task, caller.caller),
    admin: caller.is_admin,
  })

/** Whether the caller has the permission on the tags of the row `task`. */
export const allowsTaskTag = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  allowed(permission, relationsThroughTask(caller, task))

/** Whether the caller has the permission on the row `tag`. */
export const allowsTag = (permission: Permission, caller: CallerPlaceholders, tag: SQL): SQL =>
  unlessDeleted(permission === 'tag.see', tag, allowed(permission, tagRelations(caller, tag)))

/**
 * Whether a row of `tag_counts` is about tasks that the reader can see: as a member of the project, or as an assignee elsewhere
 * (`task_viewers`). Each task that a member can see is in exactly one such row.
 */
const isCountOfReader = (caller: CallerPlaceholders, row: SQL): SQL => {
  const { project_id, user_id } = columnsOf<'tag_counts'>(row)
  const isOfMember = isMember(project_id, caller.caller, 'viewer')
  const isOfAssignee = sql`${project_id} is null or (not ${isOfMember} and ${isProjectInUse(project_id)})`
  return sql`case when ${user_id} is null then ${isOfMember} else ${user_id} = ${caller.caller} and (${isOfAssignee}) end`
}

/** The number of tasks with the tag that the reader can see. */
export const countTasks = (tag: SQL, role: Role, caller: CallerPlaceholders): SQL => {
  const { tasks, project_id, user_id, tag_id } = columnsOf<'tag_counts'>(sql`counted`)
  const isInTrash = sql`${project_id} is not null and not ${isProjectInUse(project_id)}`
  // Administrators see everything but the projects in the trash.
  const count =
    role === 'admin'
      ? sql`case when ${user_id} is not null then 0 when ${project_id} is null then ${tasks} when ${isInTrash} then -${tasks} end`
      : sql`case when ${isCountOfReader(caller, sql`counted`)} then ${tasks} end`
  return sql`coalesce((select sum(${count})::int from tag_counts counted where ${tag_id} = ${tag}.id), 0)`
}

/**
 * Access branches for the tags `item` that pass `tag.see`: the caller's own tags, those of their projects, and tags on tasks
 * that they can see. The latter are read from `tag_counts`, which triggers maintain, in list order.
 */
export const tagBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const isNotDeleted = sql`item.deleted_at is null`
  if (role === 'admin') return onlyBranch(isNotDeleted)
  const { owner, viewer } = tagRelations(caller, sql`item`)
  const { tag_id, project_id, user_id, created_at } = columnsOf<'tag_counts'>(sql`counted`)
  const placeOf = (row: SQL): SQL =>
    sql`coalesce(${columnsOf<'tag_counts'>(row).project_id}, ${sql.raw(`'${nil}'`)})`
  // A tag with several rows is read from the first. OFFSET keeps the planner from reading all tags for the join.
  const carried = (isOfViewer: SQL): SQL => sql`(
    select ${tag_id} as id, tag.name, tag.name_folded, tag.color, tag.owner_id, tag.project_id, ${created_at}, tag.deleted_at
    from tag_counts counted cross join lateral (select * from tags where tags.id = ${tag_id} offset 0) tag
    where ${isOfViewer} and ${isCountOfReader(caller, sql`counted`)} and not exists (
      select from tag_counts other
      where other.tag_id = ${tag_id} and ${isCountOfReader(caller, sql`other`)}
        and ${placeOf(sql`other`)} < ${placeOf(sql`counted`)})) item`
  const ofMemberships = (rows: SQL): SQL => sql`
    select reached.* from memberships membership cross join lateral (${rows}) reached
    where membership.user_id = ${caller.caller}`
  const ofUser = sql`${user_id} = ${caller.caller}`
  const ofProject = sql`${user_id} is null and ${project_id} = membership.project_id`
  const isSeenOtherwise = sql`(${owner} or ${viewer})`
  return [
    ...onlyBranch(sql`${isNotDeleted} and ${owner}`),
    {
      select: (rows) => ofMemberships(rows(sql`${isNotDeleted} and item.project_id = membership.project_id`)),
      isRepeated: sql`false`,
      beganIn: null,
    },
    {
      select: (rows) => rows(isNotDeleted, { from: carried(ofUser) }),
      isRepeated: isSeenOtherwise,
      beganIn: null,
    },
    {
      select: (rows) => ofMemberships(rows(isNotDeleted, { from: carried(ofProject) })),
      isRepeated: isSeenOtherwise,
      beganIn: null,
    },
  ]
}

const tagRelations = (caller: CallerPlaceholders, tag: SQL) => ({
  owner: sql`(${tag}.owner_id = ${caller.caller} and ${tag}.project_id is null)`,
  viewer: isMember(sql`${tag}.project_id`, caller.caller, 'viewer'),
  editor: isMember(sql`${tag}.project_id`, caller.caller, 'editor'),
  sees_carrier: sql`exists (
    select from task_tags carried join tasks carrier on carrier.id = carried.task_id
    where carried.tag_id = ${tag}.id and ${allowsTask('task.see', caller, sql`carrier`)})`,
  admin: caller.is_admin,
})

const nil = '00000000-0000-0000-0000-000000000000'

const relationsThroughTask = (caller: CallerPlaceholders, task: SQL): Relations => ({
  sees_task: allowsTask('task.see', caller, task),
  changes_task: allowsTask('task.change', caller, task),
})
