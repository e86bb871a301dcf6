/* quotas.count_tasks */
with counted as (
  insert into task_counts (user_id, tasks)
  select user_id, change from unnest($1::uuid[], $2::text[]::int[]) as changed (user_id, change) order by user_id
  on conflict (user_id) do update set tasks = task_counts.tasks + excluded.tasks returning user_id, tasks
)
select user_id::text, tasks, "owner"."task_quota" from counted join users owner on "owner"."id" = user_id;
