/* trashed_projects.select_facts */
select "project"."version", exists (
select from project_grants granted join users person on "person"."id" = granted.user_id
where granted.project_id = "project"."id" and granted.role = 'manager' and granted.user_id = $1::uuid) as is_manager, exists (
select from project_grants granted join users person on "person"."id" = granted.user_id
where granted.project_id = "project"."id" and granted.role = 'manager' and "person"."deleted_at" is null) as has_manager
from projects project where "project"."id" = $2::uuid and ("project"."deleted_at" is not null and "project"."purged_at" is null and "project"."filling_import_id" is null)
  and exists (select from users person where "person"."id" = $1::uuid and "person"."deleted_at" is null);
