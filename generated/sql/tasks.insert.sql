/* tasks.insert */ with
    new_task as (
      select $1::uuid as id, $2::jsonb as item, $3::uuid as owner_id, $4::uuid[] as tag_ids,
        $2::jsonb -> 'tag_names' as tag_names
    ),
trees as materialized (
  select lock_trees(array(select null::uuid where false), array(select (item ->> 'parent_id')::uuid from new_task where (item ->> 'parent_id')::uuid is not null), array(select null::uuid where false)) as are_locked
), visible_parents as (
select * from tasks task where id in (select (item ->> 'parent_id')::uuid from new_task where (item ->> 'parent_id')::uuid is not null) and (task.deleted_at is null and ((task.owner_id = $5::uuid and task.project_id is null) or (coalesce(task.assignee_id = $5::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = task.project_id and true offset 0) or ((select $6::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) and (select are_locked from trees)
order by id for no key update
), creations as (
  select new_task.*, case when item ? 'project_id' then (item ->> 'project_id')::uuid else parent.project_id end as project_id
  from (select * from new_task) new_task left join visible_parents parent on parent.id = (item ->> 'parent_id')::uuid
    ), people as (
      select id from users where id in (
select owner_id from creations union select (item ->> 'assignee_id')::uuid from creations) and users.deleted_at is null order by id for key share
    ), visible_projects as (
  select project.id, project.archived_at is not null as is_archived, (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = project.id and membership.role in ('editor', 'manager') offset 0) or (select $6::bool))) as may_edit
  from projects project where project.id in (select project_id from creations) and (project.deleted_at is null and (exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = project.id and true offset 0) or (select $6::bool)))
  order by project.id for key share
    ), visible_sections as (
      select id, project_id from sections where id in (select (item ->> 'section_id')::uuid from creations) order by id for key share
    ), visible_tags as (
      select * from tags tag where id in (select unnest(tag_ids) from creations) and (tag.deleted_at is null and ((tag.owner_id = $5::uuid and tag.project_id is null) or exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = tag.project_id and true offset 0) or exists (
  select from tag_counts counted
  where counted.tag_id = tag.id and case when counted.user_id is null then exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = counted.project_id and true offset 0) else counted.user_id = $5::uuid and (counted.project_id is null or (not exists (
  select from memberships membership
  where membership.user_id = $5::uuid and membership.project_id = counted.project_id and true offset 0) and exists (select from projects where projects.id = counted.project_id and projects.deleted_at is null offset 0))) end) or (select $6::bool))) order by id for key share
    ), creation as (
  select creations.*, unknown_tag, case
when (item ->> 'start_at')::timestamptz is not null and (item ->> 'start_on')::date is not null then 'start_twice'
when (item ->> 'due_at')::timestamptz is not null and (item ->> 'due_on')::date is not null then 'due_twice'
  when true and case
  when (item ->> 'start_on')::date is null and (item ->> 'due_on')::date is null then (item ->> 'due_at')::timestamptz < (item ->> 'start_at')::timestamptz
  else coalesce((item ->> 'due_on')::date, day_in_zone((item ->> 'due_at')::timestamptz, (select users.time_zone from users where users.id = owner_id)))
    < coalesce((item ->> 'start_on')::date, day_in_zone((item ->> 'start_at')::timestamptz, (select users.time_zone from users where users.id = owner_id))) end
    then case when (item ->> 'due_on')::date is null then 'due_at_before_start' else 'due_on_before_start' end
    when (project_id is not null and not exists (select from visible_projects where visible_projects.id = project_id and true)) then 'unknown_project'
    when owner_id <> $5::uuid and not (((select $6::bool) and case when creations.project_id is null
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
    else done_by($5::uuid) end as outcome
  from creations
left join lateral (
  select tag_id::text as unknown_tag from unnest(tag_ids) labels (tag_id)
  where tag_id not in (select id from visible_tags) limit 1
) unknown on true
    ), task as (
      insert into tasks (id, title, description, status, priority, start_at, start_on, due_at, due_on, assignee_id, project_id, section_id, parent_id, position, completed_at, owner_id) select id, item ->> 'title', item ->> 'description', item ->> 'status', item ->> 'priority', (item ->> 'start_at')::timestamptz, (item ->> 'start_on')::date, (item ->> 'due_at')::timestamptz, (item ->> 'due_on')::date, (item ->> 'assignee_id')::uuid, project_id, (item ->> 'section_id')::uuid, (item ->> 'parent_id')::uuid, item ->> 'position', case when item ->> 'status' = 'done' then coalesce(now(), clock_timestamp()) end, owner_id from creation where outcome = 'done' returning *
    ),
  labels as (
    select distinct on (project_id, label.canonical_name) creation.project_id, label.*
    from (select * from creation where outcome = 'done') creation, jsonb_to_recordset(tag_names) as label (id uuid, name text, canonical_name text)
    order by project_id, label.canonical_name
  ), own_tags as (
    select * from tags
    where owner_id = $5::uuid and project_id is null and deleted_at is null
      and canonical_name in (select canonical_name from labels where project_id is null)
    order by id for key share
  ), project_tags as (
    select * from tags
    where deleted_at is null
      and (project_id, canonical_name) in (select project_id, canonical_name from labels where project_id is not null)
    order by id for key share
  ), new_own_tags as (
    insert into tags (id, name, canonical_name, owner_id, project_id) select id, name, canonical_name, $5::uuid, project_id from labels
    where project_id is null and canonical_name not in (select canonical_name from own_tags) order by canonical_name
    on conflict (owner_id, canonical_name) where deleted_at is null and project_id is null do update set canonical_name = excluded.canonical_name
    returning *
  ), new_project_tags as (
    insert into tags (id, name, canonical_name, owner_id, project_id) select id, name, canonical_name, $5::uuid, project_id from labels
    where project_id is not null
      and (project_id, canonical_name) not in (select project_id, canonical_name from project_tags)
    order by project_id, canonical_name
    on conflict (project_id, canonical_name) where deleted_at is null and project_id is not null do update set canonical_name = excluded.canonical_name
    returning *
  ), named_tags as (
    select * from own_tags union all select * from project_tags
    union all select * from new_own_tags union all select * from new_project_tags
  ), tagged as (
  insert into task_tags (task_id, tag_id) select creation.id, tag_id from (select * from creation where outcome = 'done') creation, lateral (
    select unnest(tag_ids) union
    select named.id from jsonb_to_recordset(tag_names) as label (canonical_name text)
      join named_tags named
        on named.canonical_name = label.canonical_name and named.project_id is not distinct from creation.project_id
  ) labels (tag_id)
    ), created as (
      select task.id, (select row_to_json(fields)::text from (select task.id as id, task.title as title, task.description as description, task.status as status, task.priority as priority, to_char(task.start_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as start_at, task.start_on as start_on, to_char(task.due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as due_at, task.due_on as due_on, to_char(task.completed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as completed_at, task.owner_id as owner_id, task.assignee_id as assignee_id, task.project_id as project_id, task.section_id as section_id, task.parent_id as parent_id, task.position as position, (select '[' || coalesce(string_agg((select row_to_json(fields)::text from (select tag.id as id, tag.name as name, tag.color as color, tag.owner_id as owner_id, tag.project_id as project_id, to_char(tag.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields), ',' order by tag.name_folded, tag.id), '') || ']' from (select * from visible_tags union select * from named_tags) tag)::json as tags, task.attachment_count as attachment_count, (task.blocker_count > 0 and is_blocked(task.id, $5::uuid, (select $6::bool))) as is_blocked, task.comment_count as comment_count, task.subtask_count as subtask_count, task.open_subtask_count as open_subtask_count, task.version as version, to_char(task.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(task.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json
      from task
    ), kept as (
  insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $5::uuid, $7::text, $8::text, $9::text, id, json
  from created where $8::text is not null and json is not null) select outcome, unknown_tag, created.json from creation left join created on true;
