import type { TaskExpansion } from '../domain/expansions.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { instantText } from './engine/instant-text.ts'
import { allowsAttachment, allowsUser, type CallerPlaceholders } from './access/permissions.ts'

/**
 * The read schemas of the contract, as JSON text that PostgreSQL builds: each takes the name of a row of its table and
 * yields a text expression. Columns stand in the contract's order.
 */

const object = (fields: SQL): SQL => sql`(select row_to_json(fields)::text from (select ${fields}) fields)`

/** The items of an aggregated list, as one JSON array. */
const array = (item: SQL, from: SQL, order: SQL): SQL =>
  sql`(select '[' || coalesce(string_agg(${item}, ',' order by ${order}), '') || ']' from ${from})`

/** A user as the caller sees it: without the address unless they may see it. */
export const userJson = (user: SQL, caller: CallerPlaceholders): SQL =>
  object(sql`
    ${user}.id, ${user}.username, ${user}.display_name,
    case when ${allowsUser('user.see_email', caller, user)} then ${user}.email end as email,
    ${user}.role, ${instantText(sql`${user}.created_at`)} as created_at,
    ${instantText(sql`${user}.updated_at`)} as updated_at, ${user}.version`)

const tagFields = (tag: SQL): SQL => sql`
  ${tag}.id, ${tag}.name, ${tag}.color, ${tag}.owner_id, ${instantText(sql`${tag}.created_at`)} as created_at`

export const tagJson = (tag: SQL): SQL => object(tagFields(tag))

export const countedTagJson = (tag: SQL, taskCount: SQL): SQL =>
  object(sql`${tagFields(tag)}, ${taskCount} as task_count`)

/** `carried` names what is joined as `tag`: by default the rows that the statement sees in task_tags. */
export const taskJson = (task: SQL, carried: SQL = carriedTags(task)): SQL =>
  object(taskFields(task, carried))

/** A task in the trash. */
export const trashedTaskJson = (task: SQL): SQL =>
  object(sql`${taskFields(task, carriedTags(task))}, ${instantText(sql`${task}.deleted_at`)} as deleted_at`)

const taskFields = (task: SQL, carried: SQL): SQL => sql`
    ${task}.id, ${task}.title, ${task}.description, ${task}.status, ${task}.priority,
    ${instantText(sql`${task}.start_at`)} as start_at, ${instantText(sql`${task}.due_at`)} as due_at,
    ${instantText(sql`${task}.completed_at`)} as completed_at, ${task}.owner_id, ${task}.assignee_id,
    ${array(tagJson(sql`tag`), carried, sql`tag.name_folded, tag.id`)}::json as tags,
    ${task}.attachment_count, ${task}.version,
    ${instantText(sql`${task}.created_at`)} as created_at, ${instantText(sql`${task}.updated_at`)} as updated_at`

const carriedTags = (task: SQL): SQL =>
  sql`task_tags link join tags tag on tag.id = link.tag_id and tag.deleted_at is null where link.task_id = ${task}.id`

/** A task with what `expand`, a list of expansions, asks for: as the caller sees it, and absent where there is none. */
export const expandedTaskJson = (task: SQL, expand: SQL, caller: CallerPlaceholders): SQL => {
  const member = (name: TaskExpansion, json: SQL): SQL =>
    sql`case when ${sql.raw(`'${name}'`)} = any(${expand}) then coalesce(${sql.raw(`',"${name}":'`)} || ${json}, '') else '' end`
  const user = (id: SQL): SQL =>
    sql`(select ${userJson(sql`person`, caller)} from users person
      where person.id = ${id} and ${allowsUser('user.see', caller, sql`person`)})`
  return sql`left(${taskJson(task)}, -1) || ${member('owner', user(sql`${task}.owner_id`))}
    || ${member('assignee', user(sql`${task}.assignee_id`))}
    || ${member('attachments', newestAttachments(task, caller))} || '}'`
}

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

export const attachmentJson = (attachment: SQL): SQL =>
  object(sql`
    ${attachment}.id, ${attachment}.task_id, ${attachment}.file_name, ${attachment}.content_type,
    ${attachment}.detected_content_type, ${attachment}.size, ${attachment}.sha256, ${attachment}.uploaded_by,
    ${instantText(sql`${attachment}.created_at`)} as created_at`)

export const sessionJson = (session: SQL, currentId: SQL): SQL =>
  object(sql`
    ${session}.id, ${instantText(sql`${session}.created_at`)} as created_at,
    ${instantText(sql`${session}.last_used_at`)} as last_used_at,
    ${instantText(sql`${session}.expires_at`)} as expires_at, ${session}.user_agent, ${session}.address,
    ${session}.id = ${currentId} as is_current`)

export const apiTokenJson = (token: SQL): SQL =>
  object(sql`
    ${token}.id, ${token}.name, ${token}.scopes, ${instantText(sql`${token}.created_at`)} as created_at,
    ${instantText(sql`${token}.expires_at`)} as expires_at,
    ${instantText(sql`${token}.last_used_at`)} as last_used_at`)

export const auditEventJson = (event: SQL): SQL =>
  object(sql`
    ${event}.id, ${event}.action, ${event}.actor_id, ${event}.user_id, ${event}.session_id, ${event}.token_id,
    ${event}.address, ${event}.user_agent, ${event}.request_id,
    ${instantText(sql`${event}.created_at`)} as created_at`)
