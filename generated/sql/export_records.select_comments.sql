/* export_records.select_comments */
    select (select row_to_json(fields)::text from (select 'comment' as type, "comment"."id" as id, "comment"."task_id" as task_id, "comment"."author_id" as author_id, "comment"."author_name" as author_name, "comment"."body" as body, to_char("comment"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char("comment"."edited_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as edited_at) fields) as json, "comment"."id"::text as key from comments comment
    where "comment"."task_id" = any($1::uuid[]) and exists (select from tasks where "tasks"."id" = "comment"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $2::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $2::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end))) offset 0) and "comment"."id"::text > $4::text order by "comment"."id"::text limit 200;
