/* audit.select_project */
    select null as owner_id from projects project
    where "project"."id" = $1::uuid and (("project"."deleted_at" is null and (exists (
select from memberships membership
where "membership"."user_id" = $2::uuid and "membership"."project_id" = "project"."id"
  and true offset 0) or false)) or (("project"."deleted_at" is not null and "project"."purged_at" is null and "project"."filling_import_id" is null) and (exists (
    select from project_grants granted
    where granted.project_id = "project"."id" and granted.user_id = $2::uuid and granted.role in ('manager')) or false))) is not true;
