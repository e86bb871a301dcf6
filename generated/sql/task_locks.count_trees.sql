/* task_locks.count_trees */
with recursive tree as (
  select id, id as root from tasks where id = any((select $1::uuid[])::uuid[])
  union all select task.id, root from tree cross join lateral (
    select id from tasks where parent_id = tree.id and deleted_at is null offset 0
  ) task
)
select root::text as id, count(*)::int as tasks from tree group by root;
