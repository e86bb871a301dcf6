/* purge.remove_project */
delete from projects where id = $1::uuid and "projects"."purged_at" is not null
  and not exists (select from tasks where "tasks"."project_id" = $1::uuid)
  and not exists (select from task_tags link join tags on "tags"."id" = "link"."tag_id" where "tags"."project_id" = $1::uuid);
