/* tags.select */ select (select row_to_json(fields)::text from (select "tag"."id" as id, "tag"."name" as name, "tag"."color" as color, "tag"."owner_id" as owner_id, "tag"."project_id" as project_id, to_char("tag"."created_at" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json from tags tag where "tag"."id" = $1::uuid and ("tag"."deleted_at" is null and (("tag"."owner_id" = $2::uuid and "tag"."project_id" is null) or exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "tag"."project_id"
  and true offset 0) or exists (
select from tag_counts counted
where "counted"."tag_id" = "tag"."id" and case when "counted"."user_id" is null then exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "counted"."project_id"
  and true offset 0) else "counted"."user_id" = $2::uuid and ("counted"."project_id" is null or (not exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "counted"."project_id"
  and true offset 0) and exists (select from projects where "projects"."id" = "counted"."project_id" and "projects"."deleted_at" is null offset 0))) end) or (select $3::bool)));
