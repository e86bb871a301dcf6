/* purge.remove_user */
delete from users where id = $1::uuid and "users"."deleted_at" is not null
  and not exists (select from tasks where $1::uuid in ("tasks"."owner_id", "tasks"."assignee_id"))
  and not exists (select from tags where "tags"."owner_id" = $1::uuid)
  and not exists (
    select from projects join imports on "imports"."id" = "projects"."filling_import_id"
    where "imports"."user_id" = $1::uuid and "projects"."purged_at" is null);
