/* comments.select */
  select (select row_to_json(fields)::text from (select "comment"."id" as id, "comment"."task_id" as task_id, "comment"."author_id" as author_id, "comment"."author_name" as author_name, "comment"."body" as body, "comment"."mentions" as mentions, "comment"."version" as version, "comment"."version" as revision, to_char("comment"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("comment"."edited_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as edited_at) fields) as json, "comment"."version"
  from comments comment join tasks task on "task"."id" = "comment"."task_id"
  where "comment"."id" = $1::uuid and (("task"."deleted_at" is null and (("task"."owner_id" = $2::uuid and "task"."project_id" is null) or (coalesce("task"."assignee_id" = $2::uuid, false) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "task"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "task"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["task"."owner_id"])
else exists (select from projects where "projects"."id" = "task"."project_id" and "projects"."deleted_at" is null offset 0) end))));
