/* projects.check */ select exists (
select from projects project
where "project"."id" = $1::uuid and ("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or (select $3::bool)))) as is_visible;
