/* tasks.purge_user */
    with
  deleted as (
    delete from tasks
    where ctid = any(array(
select ctid from "tasks" where "tasks"."owner_id" = $1::uuid and "tasks"."project_id" is null limit 100 for update skip locked)) returning *
  ), recorded as materialized (
  select case when deleted_at is null and assignee_id <> owner_id then
    record_event('task.deleted', id, null, owner_id, assignee_id, null, '{}', '{}')::text end from deleted) select count(*) as changed from recorded;
