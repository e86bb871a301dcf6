/* tasks.move */
with before as (
  select version from tasks where id = $1::uuid
),
trees as materialized (
  select lock_trees(array(select id from (select $1::uuid union select $2::uuid union select read.id from jsonb_to_recordset($3::jsonb -> 'rows') as read (id uuid, position text)) written (id) where $4::bool), array(select null::uuid where false), array(select id from (select $1::uuid) written (id) where $4::bool)) as are_locked
), visible_parents as (
select * from tasks task where id in (select null::uuid where false) and (task.deleted_at is null and ((task.owner_id = $5::uuid and task.project_id is null) or (coalesce(task.assignee_id = $5::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = task.project_id and true offset 0) or ((select $6::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
), visible_projects as (
  select project.id, project.archived_at is not null as is_archived, (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = project.id and membership.role in ('editor', 'manager') offset 0) or (select $6::bool))) as may_edit
  from projects project where project.id in ($7::uuid) and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = project.id and true offset 0) or (select $6::bool)))
  order by project.id for key share
      ), visible_sections as (
        select id, project_id from sections where id in ($8::uuid) order by id for key share
      ), locked as materialized (
select * from tasks task where id in (select $1::uuid union select $2::uuid union select read.id from jsonb_to_recordset($3::jsonb -> 'rows') as read (id uuid, position text)) and (task.deleted_at is null and ((task.owner_id = $5::uuid and task.project_id is null) or (coalesce(task.assignee_id = $5::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = task.project_id and true offset 0) or ((select $6::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
      ), targets as (
        select * from locked where id = $1::uuid
      ), subtasks as (select have_too_many_subtasks(array(select id from targets where subtask_count > 0 and $4::bool)) as are_too_many), anchor as (
        select anchor.* from locked anchor, targets target
        where anchor.id = $2::uuid and anchor.id <> target.id
          and coalesce(anchor.project_id, anchor.owner_id) = coalesce(case when $4::bool then $7::uuid else target.project_id end, target.owner_id)
      ), change as (
        select target.id, case when $4::bool then $7::uuid else target.project_id end as project_id, case
    when $9::bool then $8::uuid
    when $2::uuid is not null then (select anchor.section_id from anchor)
    when case when $4::bool then $7::uuid else target.project_id end is not distinct from target.project_id then target.section_id end as section_id, case when case when $4::bool then $7::uuid else target.project_id end is not distinct from target.project_id then target.parent_id end as parent_id, null as unknown_tag,
          case
when not (((target.owner_id = $5::uuid and target.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $6::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end)) and not ((case when $4::bool then $7::uuid else target.project_id end is distinct from target.project_id) and exists (select from visible_projects where visible_projects.id = case when $4::bool then $7::uuid else target.project_id end and not may_edit))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $10::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $10::text[]) then 'precondition_failed'
    when $11::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $11::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived'
when (case when $4::bool then $7::uuid else target.project_id end is distinct from target.project_id) and exists (select from visible_projects where visible_projects.id = case when $4::bool then $7::uuid else target.project_id end and is_archived) then 'project_archived'
when (case when $4::bool then $7::uuid else target.project_id end is distinct from target.project_id) and (case when $4::bool then $7::uuid else target.project_id end is not null and not exists (select from visible_projects where visible_projects.id = case when $4::bool then $7::uuid else target.project_id end and true)) then 'unknown_project'
when case when $9::bool then $8::uuid end is not null and not exists (
  select from visible_sections where visible_sections.id = case when $9::bool then $8::uuid end and visible_sections.project_id = case when $4::bool then $7::uuid else target.project_id end) then 'unknown_section'
    when (case when $4::bool then $7::uuid else target.project_id end is distinct from target.project_id) and target.subtask_count > 0 and (select are_too_many from subtasks) then 'too_many_subtasks'
              when $2::uuid is not null and not exists (select from anchor) then 'unknown_' || $12::text
when exists (
  select from jsonb_to_recordset($3::jsonb -> 'rows') as read (id uuid, position text)
  where (read.id, read.position collate "C") not in (select id, position from locked)
) then 'neighbours_moved'
when $13::text is null then 'gap_full'
else done_by($5::uuid) end as outcome
        from targets target
      ), changed as (
      update tasks task set project_id = change.project_id, section_id = change.section_id, parent_id = change.parent_id, position = $13::text from change where task.id = change.id and outcome = 'done' returning task.*
)
select outcome, unknown_tag, (select row_to_json(fields)::text from (select changed.id as id, changed.title as title, changed.description as description, changed.status as status, changed.priority as priority, to_char(changed.start_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as start_at, changed.start_on as start_on, to_char(changed.due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as due_at, changed.due_on as due_on, to_char(changed.completed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as completed_at, changed.owner_id as owner_id, changed.assignee_id as assignee_id, changed.project_id as project_id, changed.section_id as section_id, changed.parent_id as parent_id, changed.position as position, (select '[' || coalesce(string_agg((select row_to_json(fields)::text from (select tag.id as id, tag.name as name, tag.color as color, tag.owner_id as owner_id, tag.project_id as project_id, to_char(tag.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',' order by tag.name_folded, tag.id), '') || ']' from task_tags link join tags tag on tag.id = link.tag_id and tag.deleted_at is null where link.task_id = changed.id)::json as tags, changed.attachment_count as attachment_count, (changed.blocker_count > 0 and is_blocked(changed.id, $5::uuid, (select $6::bool))) as is_blocked, changed.comment_count as comment_count, changed.subtask_count as subtask_count, changed.open_subtask_count as open_subtask_count, changed.version as version, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(changed.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json, changed.version,
  coalesce((changed.blocker_count > 0 and is_blocked(changed.id, $5::uuid, (select $6::bool))), false) as is_blocked,
  coalesce((select version from targets) = before.version, true) as is_current
from change left join changed on true left join before on true;
