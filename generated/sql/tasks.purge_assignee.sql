/* tasks.purge_assignee */
    with
  unassigned as (
    update tasks set assignee_id = null, version = version + 1, updated_at = clock_timestamp()
    where ctid = any(array(
select ctid from "tasks" where "tasks"."assignee_id" = $1::uuid limit 100 for update skip locked)) returning *
  ), recorded as materialized (
  select record_event('task.updated', id, project_id, owner_id, null, null,
    jsonb_build_object('assignee_id', $1::uuid), jsonb_build_object('assignee_id', null))::text from unassigned) select count(*) as changed from recorded;
