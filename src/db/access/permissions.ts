import { type Permission, permissions, type Principal, type Role } from '../../domain/permissions.ts'
import { columnsOf } from '../schema/columns.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { Placeholders } from '../engine/parameters.ts'
import { type AccessBranch, onlyBranch } from './branches.ts'
import { relationsToSee, type TaskRelationName, taskRelations } from './task-relations.ts'

/** The parameters of every statement with a permission in it. */
export const callerParameters = { caller: 'uuid', is_admin: 'bool', in_session: 'bool' } as const

export type CallerPlaceholders = Placeholders<typeof callerParameters>

/** Values for `callerParameters`. */
export const callerOf = (principal: Principal) => ({
  caller: principal.userId,
  is_admin: principal.role === 'admin',
  in_session: principal.credential.kind === 'session',
})

type Relations = Readonly<Record<string, SQL>>

const conditionOf = (permission: Permission, relation: string, relations: Relations): SQL => {
  const condition = relations[relation]
  if (condition === undefined) throw new Error(`${permission} has no ${relation} here`)
  return condition
}

/** That the caller has one of the permission's relations. */
const allowed = (permission: Permission, relations: Relations): SQL => {
  const conditions = permissions[permission].map((relation) => conditionOf(permission, relation, relations))
  return sql`(${sql.join(conditions, sql` or `)})`
}

/** That the caller may do this to the user in row `user`. */
export const allowsUser = (permission: Permission, caller: CallerPlaceholders, user: SQL): SQL =>
  unlessDeleted(permission === 'user.see', user, allowedUser(permission, caller, user))

/** Nobody sees a deleted row. Other permissions are only checked for a row that is seen. */
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

/** That the caller may do this to what belongs to the user `row.user_id`: a session, an API token. */
export const allowsOwn = (permission: Permission, caller: CallerPlaceholders, row: SQL): SQL =>
  allowed(permission, { self: sql`${row}.user_id = ${caller.caller}`, admin: caller.is_admin })

/** That the caller may do this to the audit trail. */
export const allowsAudit = (permission: Permission, caller: CallerPlaceholders): SQL =>
  allowed(permission, { admin: caller.is_admin })

/** That the caller may do this to the task in row `task`. No task passes both `task.see` and `trash.see`. */
export const allowsTask = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  inPlace(permission, task, allowed(permission, relationsOf(caller, task)))

interface TaskBranches {
  /** The one relation that reads all tasks of the list; null for all that the permission names. */
  readonly only?: TaskRelationName | null
  /** Whose tasks they are, by default the caller's. */
  readonly user?: SQL
  /** What else must hold for the row `item`. */
  readonly and?: SQL
}

/** The tasks `item` that pass a permission to see them, as branches. An administrator's is one: everything. */
export const taskBranches = (
  permission: 'task.see' | 'trash.see',
  role: Role,
  caller: CallerPlaceholders,
  { only = null, user = caller.caller, and = sql`true` }: TaskBranches = {},
): readonly AccessBranch[] => {
  const item = sql`item`
  if (role === 'admin') return onlyBranch(inPlace(permission, item, sql`true`))
  const relations = (only === null ? relationsToSee(permission) : [only]).map((name) => taskRelations[name])
  return relations.map(({ branch }, index) => {
    const earlier = relations.slice(0, index).map(({ holds }) => holds(item, user))
    return {
      select: (rows) =>
        branch(user, (condition, from) =>
          rows(inPlace(permission, item, sql`${condition} and ${and}`), from),
        ),
      isRepeated: sql`coalesce(${sql.join([sql`false`, ...earlier], sql` or `)}, false)`,
    }
  })
}

/**
 * Whether a row kept for each viewer (a tombstone, the count of a tag) is the reader's: `task_viewers` has null for the
 * administrators.
 */
export const isOfReader = (role: Role, caller: CallerPlaceholders, viewer: SQL): SQL =>
  role === 'admin' ? sql`${viewer} is null` : sql`${viewer} = ${caller.caller}`

/** The id of the task's owner if the caller passes the permission only as an administrator, otherwise null. */
export const ownerReadByAdmin = (
  permission: 'task.see' | 'trash.see',
  caller: CallerPlaceholders,
  task: SQL,
): SQL => {
  const conditions = relationsToSee(permission).map((name) => taskRelations[name].holds(task, caller.caller))
  return sql`case when (${sql.join(conditions, sql` or `)}) is not true then ${task}.owner_id::text end`
}

/**
 * That the owner of the task has not been deleted: the tasks of a deleted user disappear at once. Deleted users are few and
 * soon purged. An array operator, since the planner overestimates how many rows `<> all` removes.
 */
const ownerRemains = (task: SQL): SQL =>
  sql`not (array(select id from users where deleted_at is not null) @> array[${task}.owner_id])`

/** A permission to see includes whether the task is in the trash. Others are only checked for a task that is seen. */
const inPlace = (permission: Permission, task: SQL, condition: SQL): SQL => {
  if (permission === 'task.see')
    return sql`(${task}.deleted_at is null and ${ownerRemains(task)} and ${condition})`
  if (permission === 'trash.see')
    return sql`(${task}.deleted_at is not null and ${ownerRemains(task)} and ${condition})`
  return condition
}

const relationsOf = (caller: CallerPlaceholders, task: SQL): Relations => ({
  ...Object.fromEntries(
    Object.entries(taskRelations).map(([name, { holds }]) => [name, holds(task, caller.caller)]),
  ),
  admin: caller.is_admin,
})

/** That the caller may do this to the attachment in row `attachment` of the task in row `task`. */
export const allowsAttachment = (
  permission: Permission,
  caller: CallerPlaceholders,
  attachment: SQL,
  task: SQL,
): SQL =>
  allowed(permission, {
    ...tasksRelations(caller, task),
    uploader: sql`${attachment}.uploaded_by = ${caller.caller}`,
    task_owner: taskRelations.owner.holds(task, caller.caller),
    admin: caller.is_admin,
  })

/** That the caller may do this to the tags of the task in row `task`. */
export const allowsTaskTag = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  allowed(permission, tasksRelations(caller, task))

/** That the caller may do this to the tag in row `tag`. */
export const allowsTag = (permission: Permission, caller: CallerPlaceholders, tag: SQL): SQL =>
  unlessDeleted(permission === 'tag.see', tag, allowed(permission, tagRelations(caller, tag)))

/**
 * The tags `item` that pass `tag.see`, as branches: the caller's own, and those on tasks that they see, by the counts that
 * triggers keep in the order of the list.
 */
export const tagBranches = (role: Role, caller: CallerPlaceholders): readonly AccessBranch[] => {
  const isThere = sql`item.deleted_at is null`
  if (role === 'admin') return onlyBranch(isThere)
  const owns = sql`item.owner_id = ${caller.caller}`
  // OFFSET keeps the planner from reading all tags for the join.
  const { tag_id, user_id, created_at } = columnsOf<'tag_counts'>(sql`counted`)
  const carried = sql`(
    select ${tag_id} as id, tag.name, tag.name_folded, tag.color, tag.owner_id, ${created_at}, tag.deleted_at
    from tag_counts counted cross join lateral (select * from tags where tags.id = ${tag_id} offset 0) tag
    where ${isOfReader(role, caller, user_id)}) item`
  return [
    ...onlyBranch(sql`${isThere} and ${owns}`),
    { select: (rows) => rows(isThere, carried), isRepeated: owns },
  ]
}

const tagRelations = (caller: CallerPlaceholders, tag: SQL): Relations => ({
  owner: sql`${tag}.owner_id = ${caller.caller}`,
  sees_carrier: sql`exists (
    select from task_tags carried join tasks carrier on carrier.id = carried.task_id
    where carried.tag_id = ${tag}.id and ${allowsTask('task.see', caller, sql`carrier`)})`,
  admin: caller.is_admin,
})

const tasksRelations = (caller: CallerPlaceholders, task: SQL): Relations => ({
  sees_task: allowsTask('task.see', caller, task),
  changes_task: allowsTask('task.change', caller, task),
})
