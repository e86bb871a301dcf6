/* webhook_deliveries.select_next */
  select "delivery"."id"::text, "delivery"."event_id"::text, "delivery"."sequence", "delivery"."attempts",
    (extract(epoch from greatest(case
when "delivery"."created_at" > (select coalesce("retention"."skipped_from" + interval '1 minute', "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention) then now()
else
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) end - "delivery"."created_at", '0')) * 1000)::bigint as age, "webhook"."url", "webhook"."secret",
    case when "webhook"."previous_secret_until" > now() then "webhook"."previous_secret" else '' end as previous_secret,
    "delivery"."event_changed_in" is null or coalesce(("owner"."deleted_at" is null and not "owner"."is_disabled" and (("event"."recipient_id" is null or ("event"."recipient_id" = "webhook"."owner_id" and not ("webhook"."project_id" is not null and "owner"."role" = 'admin'))) and (("event"."task_id" is not null and (exists (select from tasks where "tasks"."id" = "event"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = "webhook"."owner_id" and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = "webhook"."owner_id", false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) and case when "event"."type" in ('task.related', 'task.unrelated')
  then exists (select from tasks where "tasks"."id" = "event"."resource_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = "webhook"."owner_id" and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = "webhook"."owner_id", false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))) else true end)) or ("event"."task_id" is null and exists (
select from projects project
where "project"."id" = "event"."project_id" and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "project"."id"
  and true offset 0) or ("webhook"."project_id" is not null and "owner"."role" = 'admin'))))) or case "event"."type"
    when 'task.deleted' then not exists (select from tasks where "tasks"."id" = "event"."task_id" and "tasks"."deleted_at" is null) and (("event"."owner_id" = "webhook"."owner_id" and "event"."project_id" is null) or ("event"."assignee_id" = "webhook"."owner_id"
  and ("event"."project_id" is null or exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0))) or exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "event"."project_id"
  and true offset 0) or (("webhook"."project_id" is not null and "owner"."role" = 'admin') and case
when "event"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["event"."owner_id"])
else exists (select from projects where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is null offset 0) end))
    when 'project.deleted' then exists (
  select from projects join project_grants granted on granted.project_id = "projects"."id"
  where "projects"."id" = "event"."project_id" and "projects"."deleted_at" is not null and "projects"."purged_at" is null
    and (("webhook"."project_id" is not null and "owner"."role" = 'admin') or granted.user_id = "webhook"."owner_id")) else false end or ("event"."task_id" is null and "event"."project_id" is null and "event"."recipient_id" = "webhook"."owner_id")))
  and ("webhook"."project_id" is null or ("webhook"."project_id" = "event"."project_id" and "event"."recipient_id" is null and exists (
    select from projects where "projects"."id" = "webhook"."project_id"
      and ("projects"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = "webhook"."owner_id" and "membership"."project_id" = "projects"."id"
  and "membership"."role" in ('manager') offset 0) or ("webhook"."project_id" is not null and "owner"."role" = 'admin'))))))), false) as may_deliver,
    case when "delivery"."event_changed_in" is null then '{"type":' || to_json("delivery"."event_type")::text || ',"timestamp":"' || to_char("delivery"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '","data":' || json_build_object('webhook_id', "webhook"."id")::text || '}'
      else '{"type":' || to_json("event"."type")::text || ',"timestamp":"' || to_char("event"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '","data":' || (select row_to_json(fields)::text from (select "event"."id" as id, "event"."type" as type, (select row_to_json(fields)::text from (select case split_part("event"."type", '.', 1) when 'task' then 'task' when 'comment' then 'comment' when 'attachment' then 'attachment' when 'project' then 'project' when 'member' then 'project' when 'export' then 'export' when 'import' then 'import' end as type, case split_part("event"."type", '.', 1) when 'task' then "event"."task_id" when 'comment' then "event"."resource_id" when 'attachment' then "event"."resource_id" when 'project' then "event"."project_id" when 'member' then "event"."project_id" when 'export' then "event"."resource_id" when 'import' then "event"."resource_id" end as id) fields)::json as subject, "event"."actor_id" as actor_id, "event"."task_id" as task_id, "event"."project_id" as project_id, "event"."resource_id" as resource_id, case when "event"."before" ?| array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] then "event"."before" - array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] || jsonb_build_object('occurrence',
  case when "event"."before" -> 'series_id' = 'null' then null else (
    select jsonb_object_agg(field, "event"."before" -> name) from (values ('series_id', 'series_id'),('occurrence_number', 'number'),('occurrence_at', 'at'),('occurrence_on', 'on'),('next_task_id', 'next_task_id')) names(name, field) where "event"."before" ? name) end)
  else "event"."before" end as before, case when "event"."after" ?| array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] then "event"."after" - array['series_id', 'occurrence_number', 'occurrence_at', 'occurrence_on', 'next_task_id'] || jsonb_build_object('occurrence',
  case when "event"."after" -> 'series_id' = 'null' then null else (
    select jsonb_object_agg(field, "event"."after" -> name) from (values ('series_id', 'series_id'),('occurrence_number', 'number'),('occurrence_at', 'at'),('occurrence_on', 'on'),('next_task_id', 'next_task_id')) names(name, field) where "event"."after" ? name) end)
  else "event"."after" end as after, to_char("event"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) || '}' end as payload
  from webhooks webhook join users owner on "owner"."id" = "webhook"."owner_id"
    cross join lateral (
      select * from webhook_deliveries delivery
      where "delivery"."webhook_id" = "webhook"."id" and "delivery"."status" = 'pending' and "delivery"."due_at" <= now()
      order by "delivery"."due_at", "delivery"."sequence" limit $1::int
    ) delivery
    left join events event
      on "event"."changed_in" = "delivery"."event_changed_in" and "event"."ordinal" = "delivery"."event_ordinal"
  where "webhook"."id" = $2::uuid and "webhook"."lease_id" = $3::uuid and "webhook"."leased_until" > now()
    and "webhook"."is_enabled" and "webhook"."deleted_at" is null
  order by "delivery"."due_at", "delivery"."sequence";
