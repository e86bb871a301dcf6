/* tasks.update */
with before as (
  select version from tasks where id = $1::uuid
),
    changes as (
      select $1::uuid as task_id, $2::jsonb as patch, case when $2::jsonb ? 'tag_ids' then array(
select distinct value::uuid from jsonb_array_elements_text($2::jsonb -> 'tag_ids') order by 1) end as tag_ids
    ),
trees as materialized (
  select lock_trees(array(select task_id from changes where patch ?| array['status', 'owner_id', 'project_id', 'parent_id']), array(select (patch ->> 'parent_id')::uuid from changes where (patch ->> 'parent_id')::uuid is not null), array(select task_id from changes where patch ?| array['owner_id', 'project_id'])) as are_locked
), visible_parents as (
select * from tasks task where id in (select (patch ->> 'parent_id')::uuid from changes where (patch ->> 'parent_id')::uuid is not null) and (task.deleted_at is null and ((task.owner_id = $3::uuid and task.project_id is null) or (coalesce(task.assignee_id = $3::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = task.project_id and true offset 0) or ((select $4::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
), people as (
      select id from users where id in (select (patch ->> 'owner_id')::uuid from changes union select (patch ->> 'assignee_id')::uuid from changes) and users.deleted_at is null order by id for key share
    ), visible_projects as (
  select project.id, project.archived_at is not null as is_archived, (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = project.id and membership.role in ('editor', 'manager') offset 0) or (select $4::bool))) as may_edit
  from projects project where project.id in (select (patch ->> 'project_id')::uuid from changes) and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = project.id and true offset 0) or (select $4::bool)))
  order by project.id for key share
    ), visible_sections as (
      select id, project_id from sections where id in (select (patch ->> 'section_id')::uuid from changes) order by id for key share
    ), visible_tags as (
      select * from tags tag where id in (select unnest(tag_ids) from changes) and (tag.deleted_at is null and ((tag.owner_id = $3::uuid and tag.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = tag.project_id and true offset 0) or exists (
  select from tag_counts counted
  where counted.tag_id = tag.id and case when counted.user_id is null then exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = counted.project_id and true offset 0) else counted.user_id = $3::uuid and (counted.project_id is null or (not exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = counted.project_id and true offset 0) and exists (select from projects where projects.id = counted.project_id and projects.deleted_at is null offset 0))) end) or (select $4::bool))) order by id for key share
    ), targets as (
select * from tasks task where id in ($1::uuid) and (task.deleted_at is null and ((task.owner_id = $3::uuid and task.project_id is null) or (coalesce(task.assignee_id = $3::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = task.project_id and true offset 0) or ((select $4::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
    ), subtasks as (select have_too_many_subtasks(array(select id from targets where subtask_count > 0)) as are_too_many), change as (
      select target.id, patch, tag_ids, tag_ids is not null and tag_ids <> tags_of_task(target.id) as replaces_tags, unknown_tag,
        case
when not (((target.owner_id = $3::uuid and target.project_id is null) or (coalesce(target.assignee_id = $3::uuid, false) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $4::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end))
    and (not coalesce((patch ->> 'owner_id')::uuid <> target.owner_id, false) or ((target.owner_id = $3::uuid and target.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $4::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end)))
    and (not ((case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end is distinct from target.project_id) or case when patch ? 'parent_id' then (patch ->> 'parent_id')::uuid else case when ((not patch ? 'project_id' or (patch ->> 'project_id')::uuid is not distinct from target.project_id) and (target.project_id is not null or (not patch ? 'owner_id' or (patch ->> 'owner_id')::uuid is not distinct from target.owner_id))) then target.parent_id end end is distinct from target.parent_id or case when patch ? 'section_id' then (patch ->> 'section_id')::uuid else case when (not patch ? 'project_id' or (patch ->> 'project_id')::uuid is not distinct from target.project_id) then target.section_id end end is distinct from target.section_id) or ((target.owner_id = $3::uuid and target.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $3::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $4::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end)))
    and not ((case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end is distinct from target.project_id) and exists (select from visible_projects where visible_projects.id = (patch ->> 'project_id')::uuid and not may_edit))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $5::text[] is not null and not (target.version::text is not null and array[target.version::text, '*'] && $5::text[]) then 'precondition_failed'
    when $6::text[] is not null and (target.version::text is not null and array[target.version::text, '*'] && $6::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived'
when (patch ->> 'start_at')::timestamptz is not null and (patch ->> 'start_on')::date is not null then 'start_twice'
when (patch ->> 'due_at')::timestamptz is not null and (patch ->> 'due_on')::date is not null then 'due_twice'
  when (case when patch ? 'start_at' then (patch ->> 'start_at')::timestamptz else target.start_at end, case when patch ? 'start_on' then (patch ->> 'start_on')::date else target.start_on end, case when patch ? 'due_at' then (patch ->> 'due_at')::timestamptz else target.due_at end, case when patch ? 'due_on' then (patch ->> 'due_on')::date else target.due_on end) is distinct from (target.start_at, target.start_on, target.due_at, target.due_on) and case
  when case when patch ? 'start_on' then (patch ->> 'start_on')::date else target.start_on end is null and case when patch ? 'due_on' then (patch ->> 'due_on')::date else target.due_on end is null then case when patch ? 'due_at' then (patch ->> 'due_at')::timestamptz else target.due_at end < case when patch ? 'start_at' then (patch ->> 'start_at')::timestamptz else target.start_at end
  else coalesce(case when patch ? 'due_on' then (patch ->> 'due_on')::date else target.due_on end, day_in_zone(case when patch ? 'due_at' then (patch ->> 'due_at')::timestamptz else target.due_at end, (select users.time_zone from users where users.id = case when patch ? 'owner_id' then (patch ->> 'owner_id')::uuid else target.owner_id end)))
    < coalesce(case when patch ? 'start_on' then (patch ->> 'start_on')::date else target.start_on end, day_in_zone(case when patch ? 'start_at' then (patch ->> 'start_at')::timestamptz else target.start_at end, (select users.time_zone from users where users.id = case when patch ? 'owner_id' then (patch ->> 'owner_id')::uuid else target.owner_id end))) end
    then case when case when patch ? 'due_on' then (patch ->> 'due_on')::date else target.due_on end is null then 'due_at_before_start' else 'due_on_before_start' end
when (case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end is distinct from target.project_id) and exists (select from visible_projects where visible_projects.id = (patch ->> 'project_id')::uuid and is_archived) then 'project_archived'
when (case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end is distinct from target.project_id) and ((patch ->> 'project_id')::uuid is not null and not exists (select from visible_projects where visible_projects.id = (patch ->> 'project_id')::uuid and true)) then 'unknown_project'
when (patch ->> 'section_id')::uuid is not null and not exists (
  select from visible_sections where visible_sections.id = (patch ->> 'section_id')::uuid and visible_sections.project_id = case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end) then 'unknown_section'
  when (patch ->> 'parent_id')::uuid is not null and (case when patch ? 'parent_id' then (patch ->> 'parent_id')::uuid else case when ((not patch ? 'project_id' or (patch ->> 'project_id')::uuid is not distinct from target.project_id) and (target.project_id is not null or (not patch ? 'owner_id' or (patch ->> 'owner_id')::uuid is not distinct from target.owner_id))) then target.parent_id end end is distinct from target.parent_id or not coalesce(case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end, case when patch ? 'owner_id' then (patch ->> 'owner_id')::uuid else target.owner_id end) = coalesce(target.project_id, target.owner_id)) and (patch ->> 'parent_id')::uuid not in (select id from visible_parents) then 'unknown_parent'
  when (patch ->> 'parent_id')::uuid is not null and (case when patch ? 'parent_id' then (patch ->> 'parent_id')::uuid else case when ((not patch ? 'project_id' or (patch ->> 'project_id')::uuid is not distinct from target.project_id) and (target.project_id is not null or (not patch ? 'owner_id' or (patch ->> 'owner_id')::uuid is not distinct from target.owner_id))) then target.parent_id end end is distinct from target.parent_id or not coalesce(case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end, case when patch ? 'owner_id' then (patch ->> 'owner_id')::uuid else target.owner_id end) = coalesce(target.project_id, target.owner_id)) and not exists (select from visible_parents parent where parent.id = (patch ->> 'parent_id')::uuid and coalesce(parent.project_id, parent.owner_id) = coalesce(case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end, case when patch ? 'owner_id' then (patch ->> 'owner_id')::uuid else target.owner_id end))
    then 'parent_elsewhere'
  when (patch ->> 'parent_id')::uuid is not null and (case when patch ? 'parent_id' then (patch ->> 'parent_id')::uuid else case when ((not patch ? 'project_id' or (patch ->> 'project_id')::uuid is not distinct from target.project_id) and (target.project_id is not null or (not patch ? 'owner_id' or (patch ->> 'owner_id')::uuid is not distinct from target.owner_id))) then target.parent_id end end is distinct from target.parent_id or not coalesce(case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end, case when patch ? 'owner_id' then (patch ->> 'owner_id')::uuid else target.owner_id end) = coalesce(target.project_id, target.owner_id)) and parent_refusal(target.id, (patch ->> 'parent_id')::uuid) is not null then parent_refusal(target.id, (patch ->> 'parent_id')::uuid)
    when unknown_tag is not null then 'unknown_tag'
when (patch ->> 'owner_id')::uuid is not null and (patch ->> 'owner_id')::uuid not in (select id from people) then 'unknown_owner'
when (patch ->> 'assignee_id')::uuid is not null and (patch ->> 'assignee_id')::uuid not in (select id from people) then 'unknown_assignee'
    when not coalesce(case when patch ? 'project_id' then (patch ->> 'project_id')::uuid else target.project_id end, case when patch ? 'owner_id' then (patch ->> 'owner_id')::uuid else target.owner_id end) = coalesce(target.project_id, target.owner_id) and target.subtask_count > 0 and (select are_too_many from subtasks) then 'too_many_subtasks'
else done_by($3::uuid) end as outcome
      from targets target cross join changes
left join lateral (
  select tag_id::text as unknown_tag from unnest(tag_ids) labels (tag_id)
  where tag_id not in (select id from visible_tags) limit 1
) unknown on true
    ), replaced as materialized (
select replace_task_tags(jsonb_agg(to_jsonb(replacement)))::text as done from (select id as task_id, tag_ids from change where outcome = 'done' and replaces_tags) replacement
    ), changed as (
  update tasks task set title = case when change.patch ? 'title' then change.patch ->> 'title' else task.title end, description = case when change.patch ? 'description' then change.patch ->> 'description' else task.description end, status = case when change.patch ? 'status' then change.patch ->> 'status' else task.status end, priority = case when change.patch ? 'priority' then change.patch ->> 'priority' else task.priority end, start_at = case when change.patch ? 'start_at' then (change.patch ->> 'start_at')::timestamptz else task.start_at end, start_on = case when change.patch ? 'start_on' then (change.patch ->> 'start_on')::date else task.start_on end, due_at = case when change.patch ? 'due_at' then (change.patch ->> 'due_at')::timestamptz else task.due_at end, due_on = case when change.patch ? 'due_on' then (change.patch ->> 'due_on')::date else task.due_on end, owner_id = case when change.patch ? 'owner_id' then (change.patch ->> 'owner_id')::uuid else task.owner_id end, assignee_id = case when change.patch ? 'assignee_id' then (change.patch ->> 'assignee_id')::uuid else task.assignee_id end, project_id = case when change.patch ? 'project_id' then (change.patch ->> 'project_id')::uuid else task.project_id end, section_id = case when change.patch ? 'section_id' then (change.patch ->> 'section_id')::uuid else case when (not change.patch ? 'project_id' or (change.patch ->> 'project_id')::uuid is not distinct from task.project_id) then task.section_id end end, parent_id = case when change.patch ? 'parent_id' then (change.patch ->> 'parent_id')::uuid else case when ((not change.patch ? 'project_id' or (change.patch ->> 'project_id')::uuid is not distinct from task.project_id) and (task.project_id is not null or (not change.patch ? 'owner_id' or (change.patch ->> 'owner_id')::uuid is not distinct from task.owner_id))) then task.parent_id end end, position = case when case when change.patch ? 'project_id' then (change.patch ->> 'project_id')::uuid else task.project_id end is not distinct from task.project_id then task.position
    else change.patch ->> 'position' end, completed_at = case when case when change.patch ? 'status' then change.patch ->> 'status' else task.status end = 'done' then coalesce(task.completed_at, clock_timestamp()) end, version = task.version + change.replaces_tags::int from change cross join replaced where task.id = change.id and outcome = 'done' returning task.*
)
select outcome, unknown_tag, (select row_to_json(fields)::text from (select changed.id as id, changed.title as title, changed.description as description, changed.status as status, changed.priority as priority, to_char(changed.start_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as start_at, changed.start_on as start_on, to_char(changed.due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as due_at, changed.due_on as due_on, to_char(changed.completed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as completed_at, changed.owner_id as owner_id, changed.assignee_id as assignee_id, changed.project_id as project_id, changed.section_id as section_id, changed.parent_id as parent_id, changed.position as position, (select '[' || coalesce(string_agg((select row_to_json(fields)::text from (select tag.id as id, tag.name as name, tag.color as color, tag.owner_id as owner_id, tag.project_id as project_id, to_char(tag.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',' order by tag.name_folded, tag.id), '') || ']' from (
    select * from visible_tags where change.tag_ids is not null
    union all select tag.* from task_tags link join tags tag on tag.id = link.tag_id and tag.deleted_at is null where link.task_id = changed.id and change.tag_ids is null) tag)::json as tags, changed.attachment_count as attachment_count, (changed.blocker_count > 0 and is_blocked(changed.id, $3::uuid, (select $4::bool))) as is_blocked, changed.comment_count as comment_count, changed.subtask_count as subtask_count, changed.open_subtask_count as open_subtask_count, changed.version as version, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(changed.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json, changed.version,
  coalesce((changed.blocker_count > 0 and is_blocked(changed.id, $3::uuid, (select $4::bool))), false) as is_blocked,
  coalesce((select version from targets) = before.version, true) as is_current
from change left join changed on true left join before on true;
