/* event_stream.select_for_viewers */
  with recursive numbered as (
    select "event"."changed_in", "event"."ordinal" as place, "event"."type", case when "event"."type" <> 'task.imported' then array_to_string(array(
    select user_id from (
  select viewer.user_id from (
  select user_id from project_grants where project_id in ("event"."project_id", (select "tasks"."project_id" from tasks where "tasks"."id" = "event"."task_id"))
  union select "tasks"."owner_id" from tasks where "tasks"."id" = "event"."task_id" union select "tasks"."assignee_id" from tasks where "tasks"."id" = "event"."task_id"
  union values ("event"."owner_id"), ("event"."assignee_id"), ("event"."recipient_id")) viewer
  where viewer.user_id is not null and (("event"."recipient_id" is null or ("event"."recipient_id" = viewer.user_id and not false)) and (("event"."task_id" is not null and (exists (select from tasks where "tasks"."id" = "event"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = viewer.user_id and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = viewer.user_id, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = viewer.user_id and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (false and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and case when "event"."type" in ('task.related', 'task.unrelated')
  then exists (select from tasks where "tasks"."id" = "event"."resource_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = viewer.user_id and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = viewer.user_id, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = viewer.user_id and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (false and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) else true end)) or ("event"."task_id" is null and exists (
select from projects project
where "project"."id" = "event"."project_id" and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = viewer.user_id and "membership"."project_id" = "project"."id"
  and true offset 0) or false)))) or case "event"."type"
    when 'task.deleted' then not exists (select from tasks where "tasks"."id" = "event"."task_id" and "tasks"."deleted_at" is null) and (("event"."owner_id" = viewer.user_id and "event"."project_id" is null) or ("event"."assignee_id" = viewer.user_id
  and ("event"."project_id" is null or exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0))) or exists (
select from memberships membership
where "membership"."user_id" = viewer.user_id and "membership"."project_id" = "event"."project_id"
  and true offset 0) or (false and case
when "event"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["event"."owner_id"])
else exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0) end))
    when 'project.deleted' then exists (
  select from projects join project_grants granted on granted.project_id = "projects"."id"
  where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is not null and "projects"."purged_at" is null
    and (false or granted.user_id = viewer.user_id)) else false end or ("event"."task_id" is null and "event"."project_id" is null and "event"."recipient_id" = viewer.user_id)))) viewer where user_id = any($1::uuid[])), ' ') else '' end as viewers, ($2::bool and "event"."type" <> 'task.imported' and (("event"."recipient_id" is null or ("event"."recipient_id" = null::uuid and not true)) and (("event"."task_id" is not null and (exists (select from tasks where "tasks"."id" = "event"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = null::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = null::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = null::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (true and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and case when "event"."type" in ('task.related', 'task.unrelated')
  then exists (select from tasks where "tasks"."id" = "event"."resource_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = null::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = null::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = null::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (true and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) else true end)) or ("event"."task_id" is null and exists (
select from projects project
where "project"."id" = "event"."project_id" and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = null::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or true)))) or case "event"."type"
    when 'task.deleted' then not exists (select from tasks where "tasks"."id" = "event"."task_id" and "tasks"."deleted_at" is null) and (("event"."owner_id" = null::uuid and "event"."project_id" is null) or ("event"."assignee_id" = null::uuid
  and ("event"."project_id" is null or exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0))) or exists (
select from memberships membership
where "membership"."user_id" = null::uuid and "membership"."project_id" = "event"."project_id"
  and true offset 0) or (true and case
when "event"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["event"."owner_id"])
else exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0) end))
    when 'project.deleted' then exists (
  select from projects join project_grants granted on granted.project_id = "projects"."id"
  where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is not null and "projects"."purged_at" is null
    and (true or granted.user_id = null::uuid)) else false end or ("event"."task_id" is null and "event"."project_id" is null and "event"."recipient_id" = null::uuid)))) as is_for_admins,
      row_number() over (order by "event"."changed_in", "event"."ordinal") as ordinal
    from (
      select * from events event where ("event"."changed_in", "event"."ordinal") > ($3::xid8, $4::bigint) and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) order by "event"."changed_in", "event"."ordinal" limit $5::int
    ) event
  ),
rendered (ordinal, json, octets) as (
  select 0::bigint, null::text, 0
  union all
  select numbered.ordinal, item.json, numbered.octets + coalesce(octet_length(item.json), 0)
  from (
    select numbered.*, octets from rendered join numbered on numbered.ordinal = rendered.ordinal + 1
    where octets < 1048576 and numbered.ordinal <= $5::int offset 0
  ) numbered cross join lateral (select (
  select (select row_to_json(fields)::text from (select "event"."id" as id, "event"."type" as type, (select row_to_json(fields)::text from (select case split_part("event"."type", '.', 1) when 'task' then 'task' when 'comment' then 'comment' when 'attachment' then 'attachment' when 'project' then 'project' when 'member' then 'project' when 'export' then 'export' when 'import' then 'import' end as type, case split_part("event"."type", '.', 1) when 'task' then "event"."task_id" when 'comment' then "event"."resource_id" when 'attachment' then "event"."resource_id" when 'project' then "event"."project_id" when 'member' then "event"."project_id" when 'export' then "event"."resource_id" when 'import' then "event"."resource_id" end as id) fields)::json as subject, "event"."actor_id" as actor_id, "event"."task_id" as task_id, "event"."project_id" as project_id, "event"."resource_id" as resource_id, case when "event"."before" ?| array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] then "event"."before" - array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] || jsonb_build_object('occurrence',
  case when "event"."before" -> 'series_id' = 'null' then null else (
    select jsonb_object_agg(field, "event"."before" -> name) from (values ('series_id', 'series_id'),('occurrence_number', 'number'),('occurrence_at', 'at'),('occurrence_on', 'on'),('next_task_id', 'next_task_id')) names(name, field) where "event"."before" ? name) end)
  else "event"."before" end as before, case when "event"."after" ?| array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] then "event"."after" - array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] || jsonb_build_object('occurrence',
  case when "event"."after" -> 'series_id' = 'null' then null else (
    select jsonb_object_agg(field, "event"."after" -> name) from (values ('series_id', 'series_id'),('occurrence_number', 'number'),('occurrence_at', 'at'),('occurrence_on', 'on'),('next_task_id', 'next_task_id')) names(name, field) where "event"."after" ? name) end)
  else "event"."after" end as after, to_char("event"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) from events event
  where (numbered.viewers <> '' or numbered.is_for_admins) and ("event"."changed_in", "event"."ordinal") = (numbered.changed_in, numbered.place)) as json offset 0) item
)
    select changed_in::text, place, type, json, viewers, is_for_admins
    from numbered join rendered using (ordinal) order by ordinal;
