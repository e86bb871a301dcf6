/* attachments.select_file */
  select "attachment"."file_name", "attachment"."content_type", "attachment"."detected_content_type", "attachment"."size",
    "attachment"."sha256", "attachment"."storage_key", to_char("attachment"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at
  from attachments attachment join tasks task on "task"."id" = "attachment"."task_id"
  where "attachment"."id" = $1::uuid and (("task"."deleted_at" is null and (("task"."owner_id" = $2::uuid and "task"."project_id" is null) or (coalesce("task"."assignee_id" = $2::uuid, false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))));
