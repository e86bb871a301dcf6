/* task_tags.select_facts */
  select ("tag"."deleted_at" is null and (("tag"."owner_id" = $1::uuid and "tag"."project_id" is null) or exists (
select from memberships membership
where "membership"."user_id" = $1::uuid and "membership"."project_id" = "tag"."project_id"
  and true offset 0) or exists (
select from tag_counts counted
where "counted"."tag_id" = "tag"."id" and case when "counted"."user_id" is null then exists (
select from memberships membership
where "membership"."user_id" = $1::uuid and "membership"."project_id" = "counted"."project_id"
  and true offset 0) else "counted"."user_id" = $1::uuid and ("counted"."project_id" is null or (not exists (
select from memberships membership
where "membership"."user_id" = $1::uuid and "membership"."project_id" = "counted"."project_id"
  and true offset 0) and exists (select from projects where "projects"."id" = "counted"."project_id" and "projects"."deleted_at" is null offset 0))) end) or (select $2::bool))) as is_seen,
    exists (select from task_tags where "task_tags"."task_id" = $3::uuid and "task_tags"."tag_id" = "tag"."id") as is_tagged
  from tags tag where "tag"."id" = $4::uuid and "tag"."deleted_at" is null;
