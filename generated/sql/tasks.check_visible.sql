/* tasks.check_visible */
  select from tasks task where "task"."id" = $1::uuid and ("task"."deleted_at" is null and (("task"."owner_id" = $2::uuid and "task"."project_id" is null) or (coalesce("task"."assignee_id" = $2::uuid, false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end)));
