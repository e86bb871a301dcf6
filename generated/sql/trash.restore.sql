/* trash.restore */
with before as (
  select version from tasks where id = $1::uuid
),
trees as materialized (
  select lock_trees(array(select $1::uuid), array(select parent_id from tasks where id = $1::uuid and parent_id is not null), array(select null::uuid where false)) as are_locked
), visible_parents as (
select * from tasks task where id in (select parent_id from tasks where id = $1::uuid and parent_id is not null) and (task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
), targets as (
      select * from tasks task
      where id = $1::uuid and (task.deleted_at is not null and ((task.owner_id = $2::uuid and task.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
      for no key update
    ), change as (
      select id, case
when not (((target.owner_id = $2::uuid and target.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $4::text[]) then 'precondition_failed'
    when $5::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $5::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived'
else done_by($2::uuid) end as outcome, null as unknown_tag,
        case when exists (select from visible_parents parent where parent.id = target.parent_id and coalesce(parent.project_id, parent.owner_id) = coalesce(target.project_id, target.owner_id)) and parent_refusal(id, target.parent_id) is null then target.parent_id end as parent_id
      from targets target
    ), changed as (
    update tasks task set deleted_at = null, parent_id = change.parent_id from change
    where task.id = change.id and outcome = 'done' returning task.*
)
select outcome, unknown_tag, (select row_to_json(fields)::text from (select changed.id as id, changed.title as title, changed.description as description, changed.status as status, changed.priority as priority, to_char(changed.start_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as start_at, changed.start_on as start_on, to_char(changed.due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as due_at, changed.due_on as due_on, to_char(changed.completed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as completed_at, changed.owner_id as owner_id, changed.assignee_id as assignee_id, changed.project_id as project_id, changed.section_id as section_id, changed.parent_id as parent_id, changed.position as position, (select '[' || coalesce(string_agg((select row_to_json(fields)::text from (select tag.id as id, tag.name as name, tag.color as color, tag.owner_id as owner_id, tag.project_id as project_id, to_char(tag.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',' order by tag.name_folded, tag.id), '') || ']' from task_tags link join tags tag on tag.id = link.tag_id and tag.deleted_at is null where link.task_id = changed.id)::json as tags, changed.attachment_count as attachment_count, (changed.blocker_count > 0 and is_blocked(changed.id, $2::uuid, (select $3::bool))) as is_blocked, changed.comment_count as comment_count, changed.subtask_count as subtask_count, changed.open_subtask_count as open_subtask_count, changed.version as version, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(changed.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json, changed.version,
  coalesce((changed.blocker_count > 0 and is_blocked(changed.id, $2::uuid, (select $3::bool))), false) as is_blocked,
  coalesce((select version from targets) = before.version, true) as is_current
from change left join changed on true left join before on true;
