/* task_locks.select_tags */ select id::text from tags tag where id = any((select $1::uuid[])::uuid[]) and ("tag"."deleted_at" is null and (("tag"."owner_id" = $2::uuid and "tag"."project_id" is null) or exists (
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
