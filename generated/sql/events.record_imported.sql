/* events.record_imported */
select count(record_event('task.imported', "tasks"."id", "tasks"."project_id", "tasks"."owner_id", "tasks"."assignee_id",
  $1::uuid, '{}', '{}')::text) from tasks where "tasks"."id" = any((select $2::uuid[])::uuid[]);
