/* tasks.transfer */
    with
  handed as (
    select "tasks"."id", heir_id from tasks cross join lateral (
select "person"."id" as heir_id from project_grants granted join users person on "person"."id" = granted.user_id
where granted.project_id = "tasks"."project_id" and "person"."deleted_at" is null
order by role_rank(granted.role) desc, "person"."id" limit 1 for key share of person skip locked) heir
    where "tasks"."owner_id" = $1::uuid and "tasks"."project_id" is not null
    limit 100 for no key update of tasks skip locked
  ), given as (
    update tasks set owner_id = heir_id, version = version + 1, updated_at = clock_timestamp()
    from handed where "tasks"."id" = handed.id returning tasks.*
  ), counted as (
    insert into task_counts (user_id, tasks) select owner_id, count(*) from given group by owner_id order by owner_id
    on conflict (user_id) do update set tasks = task_counts.tasks + excluded.tasks
  ), recorded as materialized (
  select record_event('task.updated', id, project_id, owner_id, assignee_id, null,
    jsonb_build_object('owner_id', $1::uuid), jsonb_build_object('owner_id', owner_id))::text from given) select count(*) as changed from recorded;
