/* purge.remove_user */
delete from users where id = $1::uuid and "users"."deleted_at" is not null
  and not exists (select from tasks where $1::uuid in ("tasks"."owner_id", "tasks"."assignee_id"))
  and not exists (select from tags where "tags"."owner_id" = $1::uuid);
