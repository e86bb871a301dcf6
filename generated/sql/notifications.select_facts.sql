/* notifications.select_facts */
  select "notification"."read_at" is not null as is_read from notifications notification
  where "notification"."id" = $1::uuid and (("notification"."user_id" = $2::uuid and ("notification"."task_id" is null or exists (select from tasks where "tasks"."id" = "notification"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $2::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $2::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end)))))));
