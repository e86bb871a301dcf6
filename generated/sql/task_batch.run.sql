/* task_batch.run */ with recursive
    new_tasks as (
select (place - 1)::int as index, item, (item ->> 'id')::uuid as id, (item ->> 'owner_id')::uuid as owner_id,
  array(select jsonb_array_elements_text(item -> 'tag_ids')::uuid) as tag_ids, item -> 'tag_names' as tag_names
from jsonb_array_elements($1::jsonb -> 'create') with ordinality items (item, place)
    ), operations as (
select kind, (place - 1)::int as index, (item ->> 'task_id')::uuid as task_id, (item ->> 'tag_id')::uuid as tag_id,
  item -> 'patch' as patch, case when item ? 'if_match' then array[item ->> 'if_match'] end as if_match,
  row_number() over (partition by (item ->> 'task_id')::uuid order by kind_place, place) as step
from unnest(string_to_array('update tag untag delete', ' ')) with ordinality kinds (kind, kind_place),
  jsonb_array_elements($1::jsonb -> kind) with ordinality items (item, place)
    ),
trees as materialized (
  select lock_trees(array(select task_id from operations), array(select (item ->> 'parent_id')::uuid from new_tasks where (item ->> 'parent_id')::uuid is not null union all select (patch ->> 'parent_id')::uuid from operations where (patch ->> 'parent_id')::uuid is not null), array(select task_id from operations where patch ?| array['owner_id', 'project_id'] union all select task_id from operations where kind = 'delete')) as are_locked
), visible_parents as (
select * from tasks task where id in (select (item ->> 'parent_id')::uuid from new_tasks where (item ->> 'parent_id')::uuid is not null union all select (patch ->> 'parent_id')::uuid from operations where (patch ->> 'parent_id')::uuid is not null) and (task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
), creations as (
  select new_task.*, case when item ? 'project_id' then (item ->> 'project_id')::uuid else parent.project_id end as project_id
  from (select * from new_tasks) new_task left join visible_parents parent on parent.id = (item ->> 'parent_id')::uuid
    ), people as (
      select id from users where id in (
select owner_id from creations union select (item ->> 'assignee_id')::uuid from creations union select (patch ->> 'owner_id')::uuid from operations union select (patch ->> 'assignee_id')::uuid from operations) and users.deleted_at is null order by id for key share
    ), visible_projects as (
  select project.id, project.archived_at is not null as is_archived, (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = project.id and membership.role in ('editor', 'manager') offset 0) or (select $3::bool))) as may_edit
  from projects project where project.id in (select project_id from creations union select (patch ->> 'project_id')::uuid from operations) and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = project.id and true offset 0) or (select $3::bool)))
  order by project.id for key share
    ), visible_sections as (
      select id, project_id from sections where id in (select (item ->> 'section_id')::uuid from creations union select (patch ->> 'section_id')::uuid from operations) order by id for key share
    ), visible_tags as (
      select * from tags tag where id in (
          select unnest(tag_ids) from creations union select tag_id from operations
          union select unnest(case when patch ? 'tag_ids' then array(
select distinct value::uuid from jsonb_array_elements_text(patch -> 'tag_ids') order by 1) end) from operations) and (tag.deleted_at is null and ((tag.owner_id = $2::uuid and tag.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = tag.project_id and true offset 0) or exists (
  select from tag_counts counted
  where counted.tag_id = tag.id and case when counted.user_id is null then exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = counted.project_id and true offset 0) else counted.user_id = $2::uuid and (counted.project_id is null or (not exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = counted.project_id and true offset 0) and exists (select from projects where projects.id = counted.project_id and projects.deleted_at is null offset 0))) end) or (select $3::bool))) order by id for key share
    ), targets as (
select * from tasks task where id in (select task_id from operations) and (task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
    ), subtasks as (select have_too_many_subtasks(array(
      select id from targets
      where subtask_count > 0 and id in (select task_id from operations where patch ?| array['owner_id', 'project_id'] union all select task_id from operations where kind = 'delete'))) as are_too_many), creation as (
  select creations.*, unknown_tag, case
when (item ->> 'start_at')::timestamptz is not null and (item ->> 'start_on')::date is not null then 'start_twice'
when (item ->> 'due_at')::timestamptz is not null and (item ->> 'due_on')::date is not null then 'due_twice'
  when true and case
  when (item ->> 'start_on')::date is null and (item ->> 'due_on')::date is null then (item ->> 'due_at')::timestamptz < (item ->> 'start_at')::timestamptz
  else coalesce((item ->> 'due_on')::date, day_in_zone((item ->> 'due_at')::timestamptz, (select users.time_zone from users where users.id = owner_id)))
    < coalesce((item ->> 'start_on')::date, day_in_zone((item ->> 'start_at')::timestamptz, (select users.time_zone from users where users.id = owner_id))) end
    then case when (item ->> 'due_on')::date is null then 'due_at_before_start' else 'due_on_before_start' end
    when (project_id is not null and not exists (select from visible_projects where visible_projects.id = project_id and true)) then 'unknown_project'
    when owner_id <> $2::uuid and not (((select $3::bool) and case when creations.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[creations.owner_id])
else exists (select from projects where projects.id = creations.project_id and projects.deleted_at is null offset 0) end)) then 'forbidden'
    when exists (select from visible_projects where visible_projects.id = project_id and not may_edit) then 'forbidden'
    when exists (select from visible_projects where visible_projects.id = project_id and is_archived) then 'project_archived'
    when (item ->> 'section_id')::uuid is not null and not exists (
  select from visible_sections where visible_sections.id = (item ->> 'section_id')::uuid and visible_sections.project_id = creations.project_id) then 'unknown_section'
  when (item ->> 'parent_id')::uuid is not null and true and (item ->> 'parent_id')::uuid not in (select id from visible_parents) then 'unknown_parent'
  when (item ->> 'parent_id')::uuid is not null and true and not exists (select from visible_parents parent where parent.id = (item ->> 'parent_id')::uuid and coalesce(parent.project_id, parent.owner_id) = coalesce(creations.project_id, creations.owner_id))
    then 'parent_elsewhere'
  when (item ->> 'parent_id')::uuid is not null and true and parent_refusal(creations.id, (item ->> 'parent_id')::uuid) is not null then parent_refusal(creations.id, (item ->> 'parent_id')::uuid)
    when unknown_tag is not null then 'unknown_tag'
when owner_id is not null and owner_id not in (select id from people) then 'unknown_owner'
when (item ->> 'assignee_id')::uuid is not null and (item ->> 'assignee_id')::uuid not in (select id from people) then 'unknown_assignee'
    else done_by($2::uuid) end as outcome
  from creations
left join lateral (
  select tag_id::text as unknown_tag from unnest(tag_ids) labels (tag_id)
  where tag_id not in (select id from visible_tags) limit 1
) unknown on true
    ), walked as (
select id, 0::bigint as step, null::text as kind, null::int as index, null::text as outcome, null::text as unknown_tag,
  version, '{}'::jsonb as patch, tags_of_task(id) as tag_ids, status <> 'done' as was_open, false as is_deleted
from targets
union all
select before.id, operation.step, operation.kind, operation.index, outcome, unknown_tag,
  before.version + (
    coalesce(((next.patch ? 'title' and next.patch ->> 'title' is distinct from state.title) or (next.patch ? 'description' and next.patch ->> 'description' is distinct from state.description) or (next.patch ? 'status' and next.patch ->> 'status' is distinct from state.status) or (next.patch ? 'priority' and next.patch ->> 'priority' is distinct from state.priority) or (next.patch ? 'start_at' and (next.patch ->> 'start_at')::timestamptz is distinct from state.start_at) or (next.patch ? 'start_on' and (next.patch ->> 'start_on')::date is distinct from state.start_on) or (next.patch ? 'due_at' and (next.patch ->> 'due_at')::timestamptz is distinct from state.due_at) or (next.patch ? 'due_on' and (next.patch ->> 'due_on')::date is distinct from state.due_on) or (next.patch ? 'owner_id' and (next.patch ->> 'owner_id')::uuid is distinct from state.owner_id) or (next.patch ? 'assignee_id' and (next.patch ->> 'assignee_id')::uuid is distinct from state.assignee_id) or (next.patch ? 'project_id' and (next.patch ->> 'project_id')::uuid is distinct from state.project_id) or (next.patch ? 'section_id' and (next.patch ->> 'section_id')::uuid is distinct from state.section_id) or (next.patch ? 'parent_id' and (next.patch ->> 'parent_id')::uuid is distinct from state.parent_id)), false) or next.tag_ids <> before.tag_ids
    or next.is_deleted <> before.is_deleted
  )::int,
  before.patch || (next.patch - 'tag_ids'), next.tag_ids,
  before.was_open or coalesce(next.patch ->> 'status' <> 'done', false), next.is_deleted
from (select id, step, version, patch, tag_ids, was_open, is_deleted from walked) before
  join operations operation on operation.task_id = before.id and operation.step = before.step + 1
  join targets target on target.id = before.id
  cross join lateral (
    select target.id, before.version, target.subtask_count, case when before.patch ? 'title' then before.patch ->> 'title' else target.title end as title, case when before.patch ? 'description' then before.patch ->> 'description' else target.description end as description, case when before.patch ? 'status' then before.patch ->> 'status' else target.status end as status, case when before.patch ? 'priority' then before.patch ->> 'priority' else target.priority end as priority, case when before.patch ? 'start_at' then (before.patch ->> 'start_at')::timestamptz else target.start_at end as start_at, case when before.patch ? 'start_on' then (before.patch ->> 'start_on')::date else target.start_on end as start_on, case when before.patch ? 'due_at' then (before.patch ->> 'due_at')::timestamptz else target.due_at end as due_at, case when before.patch ? 'due_on' then (before.patch ->> 'due_on')::date else target.due_on end as due_on, case when before.patch ? 'owner_id' then (before.patch ->> 'owner_id')::uuid else target.owner_id end as owner_id, case when before.patch ? 'assignee_id' then (before.patch ->> 'assignee_id')::uuid else target.assignee_id end as assignee_id, case when before.patch ? 'project_id' then (before.patch ->> 'project_id')::uuid else target.project_id end as project_id, case when before.patch ? 'section_id' then (before.patch ->> 'section_id')::uuid else case when (not before.patch ? 'project_id' or (before.patch ->> 'project_id')::uuid is not distinct from target.project_id) then target.section_id end end as section_id, case when before.patch ? 'parent_id' then (before.patch ->> 'parent_id')::uuid else case when ((not before.patch ? 'project_id' or (before.patch ->> 'project_id')::uuid is not distinct from target.project_id) and (target.project_id is not null or (not before.patch ? 'owner_id' or (before.patch ->> 'owner_id')::uuid is not distinct from target.owner_id))) then target.parent_id end end as parent_id,
      case when before.is_deleted then now() end as deleted_at
  ) state
left join lateral (
  select tag_id::text as unknown_tag from unnest(case when operation.patch ? 'tag_ids' then array(
select distinct value::uuid from jsonb_array_elements_text(operation.patch -> 'tag_ids') order by 1) end) labels (tag_id)
  where tag_id not in (select id from visible_tags) limit 1
) unknown on true
  cross join lateral (
    select case
      when (state.deleted_at is null and ((state.owner_id = $2::uuid and state.project_id is null) or (coalesce(state.assignee_id = $2::uuid, false) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = state.project_id and true offset 0) or ((select $3::bool) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end))) is not true then 'missing'
      when operation.kind = 'update' then case
when not (((state.owner_id = $2::uuid and state.project_id is null) or (coalesce(state.assignee_id = $2::uuid, false) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = state.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end))
    and (not coalesce((operation.patch ->> 'owner_id')::uuid <> state.owner_id, false) or ((state.owner_id = $2::uuid and state.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = state.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end)))
    and (not ((case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end is distinct from state.project_id) or case when operation.patch ? 'parent_id' then (operation.patch ->> 'parent_id')::uuid else case when ((not operation.patch ? 'project_id' or (operation.patch ->> 'project_id')::uuid is not distinct from state.project_id) and (state.project_id is not null or (not operation.patch ? 'owner_id' or (operation.patch ->> 'owner_id')::uuid is not distinct from state.owner_id))) then state.parent_id end end is distinct from state.parent_id or case when operation.patch ? 'section_id' then (operation.patch ->> 'section_id')::uuid else case when (not operation.patch ? 'project_id' or (operation.patch ->> 'project_id')::uuid is not distinct from state.project_id) then state.section_id end end is distinct from state.section_id) or ((state.owner_id = $2::uuid and state.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = state.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end)))
    and not ((case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end is distinct from state.project_id) and exists (select from visible_projects where visible_projects.id = (operation.patch ->> 'project_id')::uuid and not may_edit))) then 'forbidden'
when not (true) then 'reauthentication_required'
when operation.if_match is not null and not (state.version::text is not null and array[state.version::text, '*'] && operation.if_match) then 'precondition_failed'
    when $4::text[] is not null and (state.version::text is not null and array[state.version::text, '*'] && $4::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = state.project_id and projects.archived_at is not null) then 'project_archived'
when (operation.patch ->> 'start_at')::timestamptz is not null and (operation.patch ->> 'start_on')::date is not null then 'start_twice'
when (operation.patch ->> 'due_at')::timestamptz is not null and (operation.patch ->> 'due_on')::date is not null then 'due_twice'
  when (case when operation.patch ? 'start_at' then (operation.patch ->> 'start_at')::timestamptz else state.start_at end, case when operation.patch ? 'start_on' then (operation.patch ->> 'start_on')::date else state.start_on end, case when operation.patch ? 'due_at' then (operation.patch ->> 'due_at')::timestamptz else state.due_at end, case when operation.patch ? 'due_on' then (operation.patch ->> 'due_on')::date else state.due_on end) is distinct from (state.start_at, state.start_on, state.due_at, state.due_on) and case
  when case when operation.patch ? 'start_on' then (operation.patch ->> 'start_on')::date else state.start_on end is null and case when operation.patch ? 'due_on' then (operation.patch ->> 'due_on')::date else state.due_on end is null then case when operation.patch ? 'due_at' then (operation.patch ->> 'due_at')::timestamptz else state.due_at end < case when operation.patch ? 'start_at' then (operation.patch ->> 'start_at')::timestamptz else state.start_at end
  else coalesce(case when operation.patch ? 'due_on' then (operation.patch ->> 'due_on')::date else state.due_on end, day_in_zone(case when operation.patch ? 'due_at' then (operation.patch ->> 'due_at')::timestamptz else state.due_at end, (select users.time_zone from users where users.id = case when operation.patch ? 'owner_id' then (operation.patch ->> 'owner_id')::uuid else state.owner_id end)))
    < coalesce(case when operation.patch ? 'start_on' then (operation.patch ->> 'start_on')::date else state.start_on end, day_in_zone(case when operation.patch ? 'start_at' then (operation.patch ->> 'start_at')::timestamptz else state.start_at end, (select users.time_zone from users where users.id = case when operation.patch ? 'owner_id' then (operation.patch ->> 'owner_id')::uuid else state.owner_id end))) end
    then case when case when operation.patch ? 'due_on' then (operation.patch ->> 'due_on')::date else state.due_on end is null then 'due_at_before_start' else 'due_on_before_start' end
when (case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end is distinct from state.project_id) and exists (select from visible_projects where visible_projects.id = (operation.patch ->> 'project_id')::uuid and is_archived) then 'project_archived'
when (case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end is distinct from state.project_id) and ((operation.patch ->> 'project_id')::uuid is not null and not exists (select from visible_projects where visible_projects.id = (operation.patch ->> 'project_id')::uuid and true)) then 'unknown_project'
when (operation.patch ->> 'section_id')::uuid is not null and not exists (
  select from visible_sections where visible_sections.id = (operation.patch ->> 'section_id')::uuid and visible_sections.project_id = case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end) then 'unknown_section'
  when (operation.patch ->> 'parent_id')::uuid is not null and (case when operation.patch ? 'parent_id' then (operation.patch ->> 'parent_id')::uuid else case when ((not operation.patch ? 'project_id' or (operation.patch ->> 'project_id')::uuid is not distinct from state.project_id) and (state.project_id is not null or (not operation.patch ? 'owner_id' or (operation.patch ->> 'owner_id')::uuid is not distinct from state.owner_id))) then state.parent_id end end is distinct from state.parent_id or not coalesce(case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end, case when operation.patch ? 'owner_id' then (operation.patch ->> 'owner_id')::uuid else state.owner_id end) = coalesce(state.project_id, state.owner_id)) and (operation.patch ->> 'parent_id')::uuid not in (select id from visible_parents) then 'unknown_parent'
  when (operation.patch ->> 'parent_id')::uuid is not null and (case when operation.patch ? 'parent_id' then (operation.patch ->> 'parent_id')::uuid else case when ((not operation.patch ? 'project_id' or (operation.patch ->> 'project_id')::uuid is not distinct from state.project_id) and (state.project_id is not null or (not operation.patch ? 'owner_id' or (operation.patch ->> 'owner_id')::uuid is not distinct from state.owner_id))) then state.parent_id end end is distinct from state.parent_id or not coalesce(case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end, case when operation.patch ? 'owner_id' then (operation.patch ->> 'owner_id')::uuid else state.owner_id end) = coalesce(state.project_id, state.owner_id)) and not exists (select from visible_parents parent where parent.id = (operation.patch ->> 'parent_id')::uuid and coalesce(parent.project_id, parent.owner_id) = coalesce(case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end, case when operation.patch ? 'owner_id' then (operation.patch ->> 'owner_id')::uuid else state.owner_id end))
    then 'parent_elsewhere'
  when (operation.patch ->> 'parent_id')::uuid is not null and (case when operation.patch ? 'parent_id' then (operation.patch ->> 'parent_id')::uuid else case when ((not operation.patch ? 'project_id' or (operation.patch ->> 'project_id')::uuid is not distinct from state.project_id) and (state.project_id is not null or (not operation.patch ? 'owner_id' or (operation.patch ->> 'owner_id')::uuid is not distinct from state.owner_id))) then state.parent_id end end is distinct from state.parent_id or not coalesce(case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end, case when operation.patch ? 'owner_id' then (operation.patch ->> 'owner_id')::uuid else state.owner_id end) = coalesce(state.project_id, state.owner_id)) and parent_refusal(state.id, (operation.patch ->> 'parent_id')::uuid) is not null then parent_refusal(state.id, (operation.patch ->> 'parent_id')::uuid)
    when unknown_tag is not null then 'unknown_tag'
when (operation.patch ->> 'owner_id')::uuid is not null and (operation.patch ->> 'owner_id')::uuid not in (select id from people) then 'unknown_owner'
when (operation.patch ->> 'assignee_id')::uuid is not null and (operation.patch ->> 'assignee_id')::uuid not in (select id from people) then 'unknown_assignee'
    when not coalesce(case when operation.patch ? 'project_id' then (operation.patch ->> 'project_id')::uuid else state.project_id end, case when operation.patch ? 'owner_id' then (operation.patch ->> 'owner_id')::uuid else state.owner_id end) = coalesce(state.project_id, state.owner_id) and state.subtask_count > 0 and (select are_too_many from subtasks) then 'too_many_subtasks'
else done_by($2::uuid) end
      when operation.kind = 'tag' then case when operation.tag_id not in (select id from visible_tags) then 'missing'
  else case
when not ((((state.owner_id = $2::uuid and state.project_id is null) or (coalesce(state.assignee_id = $2::uuid, false) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = state.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and coalesce('*' = any($4::text[]), false) and exists (
  select from task_tags where task_id = state.id and tag_id = operation.tag_id) then 'precondition_failed'
when exists (select from projects where projects.id = state.project_id and projects.archived_at is not null) then 'project_archived'
else done_by($2::uuid) end end
      when operation.kind = 'untag' then case when not operation.tag_id = any(before.tag_ids) then 'missing'
  else case
when not ((((state.owner_id = $2::uuid and state.project_id is null) or (coalesce(state.assignee_id = $2::uuid, false) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = state.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when operation.if_match is not null and not (state.version::text is not null and array[state.version::text, '*'] && operation.if_match) then 'precondition_failed'
    when $4::text[] is not null and (state.version::text is not null and array[state.version::text, '*'] && $4::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = state.project_id and projects.archived_at is not null) then 'project_archived'
else done_by($2::uuid) end end
      else case
when not (((state.owner_id = $2::uuid and state.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = state.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when state.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[state.owner_id])
else exists (select from projects where projects.id = state.project_id and projects.deleted_at is null offset 0) end))) then 'forbidden'
when not (true) then 'reauthentication_required'
when operation.if_match is not null and not (state.version::text is not null and array[state.version::text, '*'] && operation.if_match) then 'precondition_failed'
    when $4::text[] is not null and (state.version::text is not null and array[state.version::text, '*'] && $4::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = state.project_id and projects.archived_at is not null) then 'project_archived' when true and state.subtask_count > 0 and (select are_too_many from subtasks) then 'too_many_subtasks'
else done_by($2::uuid) end end as outcome
  ) checked
  cross join lateral (
    select case when outcome = 'done' and kind = 'update' then operation.patch || case when operation.patch ?| array['owner_id', 'project_id'] then
  jsonb_build_object('section_id', case when operation.patch ? 'section_id' then (operation.patch ->> 'section_id')::uuid else case when (not operation.patch ? 'project_id' or (operation.patch ->> 'project_id')::uuid is not distinct from state.project_id) then state.section_id end end, 'parent_id', case when operation.patch ? 'parent_id' then (operation.patch ->> 'parent_id')::uuid else case when ((not operation.patch ? 'project_id' or (operation.patch ->> 'project_id')::uuid is not distinct from state.project_id) and (state.project_id is not null or (not operation.patch ? 'owner_id' or (operation.patch ->> 'owner_id')::uuid is not distinct from state.owner_id))) then state.parent_id end end) else '{}' end else '{}' end as patch,
      case
        when outcome <> 'done' then before.tag_ids
        when kind = 'update' then coalesce(case when operation.patch ? 'tag_ids' then array(
select distinct value::uuid from jsonb_array_elements_text(operation.patch -> 'tag_ids') order by 1) end, before.tag_ids)
        when kind = 'tag' then array(select unnest(before.tag_ids) union select operation.tag_id order by 1)
        when kind = 'untag' then array_remove(before.tag_ids, operation.tag_id)
        else before.tag_ids end as tag_ids,
      before.is_deleted or (outcome = 'done' and kind = 'delete') as is_deleted
  ) next
    ), outcomes as (
      select 'create' as kind, index, outcome, id, 1 as version, unknown_tag from creation
      union all
      select operation.kind, operation.index, coalesce(outcome, 'missing'), null,
        case when operation.kind <> 'delete' then walked.version end, unknown_tag
      from operations operation left join walked on walked.id = operation.task_id and walked.step = operation.step
    ), decision as (
      select not $5::bool and (not $6::bool or bool_and(outcome = 'done')) as applies from outcomes
    ), inserted as (
      insert into tasks (id, title, description, status, priority, start_at, start_on, due_at, due_on, assignee_id, project_id, section_id, parent_id, position, completed_at, owner_id) select id, item ->> 'title', item ->> 'description', item ->> 'status', item ->> 'priority', (item ->> 'start_at')::timestamptz, (item ->> 'start_on')::date, (item ->> 'due_at')::timestamptz, (item ->> 'due_on')::date, (item ->> 'assignee_id')::uuid, project_id, (item ->> 'section_id')::uuid, (item ->> 'parent_id')::uuid, item ->> 'position', case when item ->> 'status' = 'done' then coalesce(now(), clock_timestamp()) end, owner_id from creation, decision where outcome = 'done' and applies
    ),
  labels as (
    select distinct on (project_id, label.canonical_name) creation.project_id, label.*
    from (select creation.* from creation, decision where outcome = 'done' and applies) creation, jsonb_to_recordset(tag_names) as label (id uuid, name text, canonical_name text)
    order by project_id, label.canonical_name
  ), own_tags as (
    select * from tags
    where owner_id = $2::uuid and project_id is null and deleted_at is null
      and canonical_name in (select canonical_name from labels where project_id is null)
    order by id for key share
  ), project_tags as (
    select * from tags
    where deleted_at is null
      and (project_id, canonical_name) in (select project_id, canonical_name from labels where project_id is not null)
    order by id for key share
  ), new_own_tags as (
    insert into tags (id, name, canonical_name, owner_id, project_id) select id, name, canonical_name, $2::uuid, project_id from labels
    where project_id is null and canonical_name not in (select canonical_name from own_tags) order by canonical_name
    on conflict (owner_id, canonical_name) where deleted_at is null and project_id is null do update set canonical_name = excluded.canonical_name
    returning *
  ), new_project_tags as (
    insert into tags (id, name, canonical_name, owner_id, project_id) select id, name, canonical_name, $2::uuid, project_id from labels
    where project_id is not null
      and (project_id, canonical_name) not in (select project_id, canonical_name from project_tags)
    order by project_id, canonical_name
    on conflict (project_id, canonical_name) where deleted_at is null and project_id is not null do update set canonical_name = excluded.canonical_name
    returning *
  ), named_tags as (
    select * from own_tags union all select * from project_tags
    union all select * from new_own_tags union all select * from new_project_tags
  ), tagged as (
  insert into task_tags (task_id, tag_id) select creation.id, tag_id from (select * from creation, decision where outcome = 'done' and applies) creation, lateral (
    select unnest(tag_ids) union
    select named.id from jsonb_to_recordset(tag_names) as label (canonical_name text)
      join named_tags named
        on named.canonical_name = label.canonical_name and named.project_id is not distinct from creation.project_id
  ) labels (tag_id)
    ), change as (
      select distinct on (id) walked.* from walked, decision where applies
      order by id, walked.step desc
    ), replaced as materialized (
select replace_task_tags(jsonb_agg(to_jsonb(replacement)))::text as done from (
        select change.id as task_id, change.tag_ids from change join walked before on before.id = change.id
        where before.step = 0 and change.tag_ids <> before.tag_ids) replacement
    ), updated as (
      update tasks task set title = case when change.patch ? 'title' then change.patch ->> 'title' else task.title end, description = case when change.patch ? 'description' then change.patch ->> 'description' else task.description end, status = case when change.patch ? 'status' then change.patch ->> 'status' else task.status end, priority = case when change.patch ? 'priority' then change.patch ->> 'priority' else task.priority end, start_at = case when change.patch ? 'start_at' then (change.patch ->> 'start_at')::timestamptz else task.start_at end, start_on = case when change.patch ? 'start_on' then (change.patch ->> 'start_on')::date else task.start_on end, due_at = case when change.patch ? 'due_at' then (change.patch ->> 'due_at')::timestamptz else task.due_at end, due_on = case when change.patch ? 'due_on' then (change.patch ->> 'due_on')::date else task.due_on end, owner_id = case when change.patch ? 'owner_id' then (change.patch ->> 'owner_id')::uuid else task.owner_id end, assignee_id = case when change.patch ? 'assignee_id' then (change.patch ->> 'assignee_id')::uuid else task.assignee_id end, project_id = case when change.patch ? 'project_id' then (change.patch ->> 'project_id')::uuid else task.project_id end, section_id = case when change.patch ? 'section_id' then (change.patch ->> 'section_id')::uuid else case when (not change.patch ? 'project_id' or (change.patch ->> 'project_id')::uuid is not distinct from task.project_id) then task.section_id end end, parent_id = case when change.patch ? 'parent_id' then (change.patch ->> 'parent_id')::uuid else case when ((not change.patch ? 'project_id' or (change.patch ->> 'project_id')::uuid is not distinct from task.project_id) and (task.project_id is not null or (not change.patch ? 'owner_id' or (change.patch ->> 'owner_id')::uuid is not distinct from task.owner_id))) then task.parent_id end end, position = case when case when change.patch ? 'project_id' then (change.patch ->> 'project_id')::uuid else task.project_id end is not distinct from task.project_id then task.position
    else change.patch ->> 'position' end, completed_at = case when case when change.patch ? 'status' then change.patch ->> 'status' else task.status end = 'done' then coalesce(case when not change.was_open then task.completed_at end, clock_timestamp()) end, version = change.version, deleted_at = case when change.is_deleted then now() end from change cross join replaced where task.id = change.id and change.version > task.version
    ), answer as (
      select $7::uuid as id, json_build_object('request_id', $8::text, 'results', json_agg(
        json_build_object('kind', kind, 'index', index, 'outcome', outcome,
          'id', case when outcome = 'done' and applies then id end, 'version', case when outcome = 'done' and applies then version end,
          'unknown_tag', unknown_tag) order by kind, index))::text as json
      from outcomes, decision
    ), created as (
      select answer.* from answer, decision where applies
    ), kept as (
  insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $2::uuid, $9::text, $10::text, $11::text, id, json
  from created where $10::text is not null and json is not null) select json from answer;
