import { type Permission, permissions, type Role } from '../../domain/permissions.ts'
import { columnsOf } from '../schema/columns.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { ContextPlaceholders } from '../engine/context.ts'
import { type AccessBranch, onlyBranch } from './branches.ts'
import { relationsToSee, type TaskRelationName, taskRelations } from './task-relations.ts'

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

/** Whether the caller has the permission on the audit trail. */
export const allowsAudit = (permission: Permission, caller: CallerPlaceholders): SQL =>
  allowed(permission, { admin: caller.is_admin })

/** Whether the caller has the permission on the row `task`. `task.see` and `trash.see` are mutually exclusive. */
export const allowsTask = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  withTrashState(permission, task, allowed(permission, relationsOf(caller, task)))

interface TaskBranches {
  /** The only relation to read, if it covers all tasks of the list; null reads all relations of the permission. */
  readonly only?: TaskRelationName | null
  /** The user whose tasks are listed; defaults to the caller. */
  readonly user?: SQL
  /** An additional condition on the row `item`. */
  readonly and?: SQL
}

/** Access branches for the tasks `item` that pass the permission. An administrator has a single branch: all tasks. */
export const taskBranches = (
  permission: 'task.see' | 'trash.see',
  role: Role,
  caller: CallerPlaceholders,
  { only = null, user = caller.caller, and = sql`true` }: TaskBranches = {},
): readonly AccessBranch[] => {
  const item = sql`item`
  if (role === 'admin') return onlyBranch(withTrashState(permission, item, sql`true`))
  const relations = (only === null ? relationsToSee(permission) : [only]).map((name) => taskRelations[name])
  return relations.map(({ branch }, index) => {
    const earlier = relations.slice(0, index).map(({ holds }) => holds(item, user))
    return {
      select: (rows) =>
        branch(user, (condition, from) =>
          rows(withTrashState(permission, item, sql`${condition} and ${and}`), from),
        ),
      isRepeated: sql`coalesce(${sql.join([sql`false`, ...earlier], sql` or `)}, false)`,
    }
  })
}

/**
 * Whether a per-viewer row (a tombstone, a tag count) belongs to the reader. Administrators share one viewer, null
 * (`task_viewers`).
 */
export const isOfReader = (role: Role, caller: CallerPlaceholders, viewer: SQL): SQL =>
  role === 'admin' ? sql`${viewer} is null` : sql`${viewer} = ${caller.caller}`

/** The id of the task's owner if only the administrator role grants the permission; otherwise null. */
export const ownerReadByAdmin = (
  permission: 'task.see' | 'trash.see',
  caller: CallerPlaceholders,
  task: SQL,
): SQL => {
  const conditions = relationsToSee(permission).map((name) => taskRelations[name].holds(task, caller.caller))
  return sql`case when (${sql.join(conditions, sql` or `)}) is not true then ${task}.owner_id::text end`
}

/**
 * Whether the task's owner has not been deleted: the tasks of a deleted user disappear at once. Deleted users are few, since
 * they are purged soon. Uses an array operator because the planner overestimates how many rows `<> all` removes.
 */
const ownerIsNotDeleted = (task: SQL): SQL =>
  sql`not (array(select id from users where deleted_at is not null) @> array[${task}.owner_id])`

/**
 * `task.see` and `trash.see` also check whether the task is in the trash. Other permissions are checked only on visible
 * tasks.
 */
const withTrashState = (permission: Permission, task: SQL, condition: SQL): SQL => {
  if (permission === 'task.see')
    return sql`(${task}.deleted_at is null and ${ownerIsNotDeleted(task)} and ${condition})`
  if (permission === 'trash.see')
    return sql`(${task}.deleted_at is not null and ${ownerIsNotDeleted(task)} and ${condition})`
  return condition
}

const relationsOf = (caller: CallerPlaceholders, task: SQL): Relations => ({
  ...Object.fromEntries(
    Object.entries(taskRelations).map(([name, { holds }]) => [name, holds(task, caller.caller)]),
  ),
  admin: caller.is_admin,
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
    task_owner: taskRelations.owner.holds(task, caller.caller),
    admin: caller.is_admin,
  })

/** Whether the caller has the permission on the tags of the row `task`. */
export const allowsTaskTag = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  allowed(permission, relationsThroughTask(caller, task))

/** Whether the caller has the permission on the row `tag`. */
export const allowsTag = (permission: Permission, caller: CallerPlaceholders, tag: SQL): SQL =>
  unlessDeleted(permission === 'tag.see', tag, allowed(permission, tagRelations(caller, tag)))

/**
 * Access branches for the tags `item` that pass `tag.see`: the caller's own tags, and tags on tasks that they can see. The
 * latter are read from `tag_counts`, which triggers maintain, in list order.
 */
export const tagBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const isNotDeleted = sql`item.deleted_at is null`
  if (role === 'admin') return onlyBranch(isNotDeleted)
  const owns = sql`item.owner_id = ${caller.caller}`
  // OFFSET keeps the planner from reading all tags for the join.
  const { tag_id, user_id, created_at } = columnsOf<'tag_counts'>(sql`counted`)
  const carried = sql`(
    select ${tag_id} as id, tag.name, tag.name_folded, tag.color, tag.owner_id, ${created_at}, tag.deleted_at
    from tag_counts counted cross join lateral (select * from tags where tags.id = ${tag_id} offset 0) tag
    where ${isOfReader(role, caller, user_id)}) item`
  return [
    ...onlyBranch(sql`${isNotDeleted} and ${owns}`),
    { select: (rows) => rows(isNotDeleted, carried), isRepeated: owns },
  ]
}

const tagRelations = (caller: CallerPlaceholders, tag: SQL): Relations => ({
  owner: sql`${tag}.owner_id = ${caller.caller}`,
  sees_carrier: sql`exists (
    select from task_tags carried join tasks carrier on carrier.id = carried.task_id
    where carried.tag_id = ${tag}.id and ${allowsTask('task.see', caller, sql`carrier`)})`,
  admin: caller.is_admin,
})

const relationsThroughTask = (caller: CallerPlaceholders, task: SQL): Relations => ({
  sees_task: allowsTask('task.see', caller, task),
  changes_task: allowsTask('task.change', caller, task),
})
