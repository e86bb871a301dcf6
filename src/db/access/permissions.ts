import { type Permission, permissions, type Principal, type Role } from '../../domain/permissions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { Placeholders } from '../engine/parameters.ts'

/** The parameters that every statement with a permission in it takes. */
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

/** A condition that holds when the caller has one of the permission's relations. */
const allowed = (permission: Permission, relations: Relations): SQL => {
  const conditions = permissions[permission].map((relation) => conditionOf(permission, relation, relations))
  return sql`(${sql.join(conditions, sql` or `)})`
}

/**
 * The same, taken apart: exactly one of the conditions holds when the caller has one of the permission's relations, so
 * that each can be read by an index of its own. An administrator has that relation to everything, and nobody else has.
 */
const allowedApart = (permission: Permission, role: Role, relations: Relations): SQL[] => {
  if (role === 'admin' && isAdministrators(permission)) return [sql`true`]
  return permissions[permission]
    .filter((relation) => relation !== 'admin')
    .map((relation) => conditionOf(permission, relation, relations))
    .map((condition, index, all) =>
      sql.join(
        [condition, ...all.slice(0, index).map((earlier) => sql`(${earlier}) is not true`)],
        sql` and `,
      ),
    )
}

const isAdministrators = (permission: Permission): boolean =>
  permissions[permission].some((relation) => relation === 'admin')

/** May the caller do this to the user in row `user`? */
export const allowsUser = (permission: Permission, caller: CallerPlaceholders, user: SQL): SQL =>
  unlessDeleted(permission === 'user.see', user, allowedUser(permission, caller, user))

/** A deleted row is not to be seen; what else is asked is asked of a row that is seen. */
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

/** May the caller do this to what the user in `row.user_id` has for themselves: a session, an API token? */
export const allowsOwn = (permission: Permission, caller: CallerPlaceholders, row: SQL): SQL =>
  allowed(permission, { self: sql`${row}.user_id = ${caller.caller}`, admin: caller.is_admin })

/** May the caller do this to the audit trail? */
export const allowsAudit = (permission: Permission, caller: CallerPlaceholders): SQL =>
  allowed(permission, { admin: caller.is_admin })

/**
 * May the caller do this to the task in row `task`? The fragment for "visible tasks" is that of `task.see`, for the
 * trash that of `trash.see`; no task passes both.
 */
export const allowsTask = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  inPlace(permission, task, allowed(permission, taskRelations(caller, task)))

/** The same as conditions of which exactly one holds. */
export const allowsTaskApart = (
  permission: Permission,
  role: Role,
  caller: CallerPlaceholders,
  task: SQL,
): readonly SQL[] =>
  allowedApart(permission, role, taskRelations(caller, task)).map((reason) =>
    inPlace(permission, task, reason),
  )

/** The same where the caller is known to have one of the permission's relations to the task. */
export const allowsTaskAs = (
  permission: Permission,
  relation: string,
  caller: CallerPlaceholders,
  task: SQL,
): SQL => inPlace(permission, task, conditionOf(permission, relation, taskRelations(caller, task)))

/**
 * The id of the task's owner if the caller passes the permission only as an administrator, otherwise null: what they read
 * then is somebody else's.
 */
export const ownerReadByAdmin = (
  permission: 'task.see' | 'trash.see',
  caller: CallerPlaceholders,
  task: SQL,
): SQL => {
  const relations = taskRelations(caller, task)
  const conditions = permissions[permission]
    .filter((relation) => relation !== 'admin')
    .map((relation) => conditionOf(permission, relation, relations))
  return sql`case when (${sql.join(conditions, sql` or `)}) is not true then ${task}.owner_id::text end`
}

/**
 * Whether the owner of the task has not been deleted: with them, their tasks are gone for everybody at once. Deleted users
 * are few and soon removed. The planner expects an array operator to let nearly every row pass, whereas it would multiply
 * the odds of `<> all` by the number of owners.
 */
const ownerRemains = (task: SQL): SQL =>
  sql`not (array(select id from users where deleted_at is not null) @> array[${task}.owner_id])`

/** A permission to see tells where the task is, in the trash or not; what else is asked is asked of a task that is seen. */
const inPlace = (permission: Permission, task: SQL, condition: SQL): SQL => {
  if (permission === 'task.see')
    return sql`(${task}.deleted_at is null and ${ownerRemains(task)} and ${condition})`
  if (permission === 'trash.see')
    return sql`(${task}.deleted_at is not null and ${ownerRemains(task)} and ${condition})`
  return condition
}

const taskRelations = (caller: CallerPlaceholders, task: SQL): Relations => ({
  owner: sql`${task}.owner_id = ${caller.caller}`,
  assignee: sql`${task}.assignee_id = ${caller.caller}`,
  admin: caller.is_admin,
})

/** May the caller do this to the attachment in row `attachment` of the task in row `task`? */
export const allowsAttachment = (
  permission: Permission,
  caller: CallerPlaceholders,
  attachment: SQL,
  task: SQL,
): SQL =>
  allowed(permission, {
    ...tasksRelations(caller, task),
    uploader: sql`${attachment}.uploaded_by = ${caller.caller}`,
    task_owner: sql`${task}.owner_id = ${caller.caller}`,
    admin: caller.is_admin,
  })

/** May the caller do this to the tags of the task in row `task`? */
export const allowsTaskTag = (permission: Permission, caller: CallerPlaceholders, task: SQL): SQL =>
  allowed(permission, tasksRelations(caller, task))

/** May the caller do this to the tag in row `tag`? */
export const allowsTag = (permission: Permission, caller: CallerPlaceholders, tag: SQL): SQL =>
  unlessDeleted(permission === 'tag.see', tag, allowed(permission, tagRelations(caller, tag)))

/** The same as conditions of which exactly one holds; `carried` are the ids of the tags on tasks that the caller sees. */
export const allowsTagApart = (
  permission: Permission,
  role: Role,
  caller: CallerPlaceholders,
  tag: SQL,
  carried: SQL,
): readonly SQL[] =>
  allowedApart(permission, role, {
    ...tagRelations(caller, tag),
    // An array, so that the tags are read by their key whatever the planner expects of `carried`.
    sees_carrier: sql`${tag}.id = any(array(${carried}))`,
  }).map((reason) => unlessDeleted(permission === 'tag.see', tag, reason))

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
