/* reminders.select */
  select (select row_to_json(fields)::text from (select "reminder"."id" as id, "reminder"."task_id" as task_id, to_char("reminder"."at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, "reminder"."relative_to" as relative_to, "reminder"."offset_minutes" as offset_minutes, "reminder"."time_of_day" as time_of_day, to_char("reminder"."snoozed_until" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as snoozed_until, to_char("reminder"."remind_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as remind_at, "reminder"."fires_at" is not null as is_pending, to_char("reminder"."fired_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as fired_at, "reminder"."late_seconds" as late_seconds, "reminder"."version" as version, ("reminder"."version" + "reminder"."side_changes") as revision, to_char("reminder"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("reminder"."updated_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at) fields) as json from reminders reminder
  where "reminder"."id" = $1::uuid and (("reminder"."user_id" = $2::uuid and exists (select from tasks where "tasks"."id" = "reminder"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $2::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $2::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end))))));
