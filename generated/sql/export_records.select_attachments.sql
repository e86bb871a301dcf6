/* export_records.select_attachments */
    select (select row_to_json(fields)::text from (select 'attachment' as type, "attachment"."id" as id, "attachment"."task_id" as task_id, "attachment"."file_name" as file_name, "attachment"."content_type" as content_type, "attachment"."size" as size, "attachment"."sha256" as sha256, "attachment"."uploaded_by" as uploaded_by, to_char("attachment"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, null as entry, null as url, "attachment"."storage_key" as storage_key) fields) as json, "attachment"."id"::text as key from attachments attachment
    where "attachment"."task_id" = any($1::uuid[]) and exists (select from tasks where "tasks"."id" = "attachment"."task_id" and ("tasks"."deleted_at" is null and (("tasks"."owner_id" = $2::uuid and "tasks"."project_id" is null) or (coalesce("tasks"."assignee_id" = $2::uuid, false) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "tasks"."project_id"
  and true offset 0) or ((select $3::bool) and case
when "tasks"."project_id" is null
then not (array(select id from users where "users"."deleted_at" is not null) @> array["tasks"."owner_id"])
else exists (select from projects where "projects"."id" = "tasks"."project_id" and "projects"."deleted_at" is null offset 0) end))) offset 0) and "attachment"."id"::text > $4::text order by "attachment"."id"::text limit 200;
