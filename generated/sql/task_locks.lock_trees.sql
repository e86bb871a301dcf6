/* task_locks.lock_trees */
with recurring as materialized (
  select task.id, task.next_task_id, next.id as withdrawable
  from tasks task left join tasks next
    on next.id = task.next_task_id and ("next"."version" + "next"."side_changes") = 1 and coalesce("next"."project_id", "next"."owner_id") = coalesce("task"."project_id", "task"."owner_id")
  where task.id = any((select $1::uuid[])::uuid[]) and task.series_id is not null
), roots as materialized (
  select array(select id from recurring union select withdrawable from recurring where withdrawable is not null) as ids
)
select tree.id::text, recurring.id is not null as recurs, recurring.next_task_id::text
from roots
  cross join unnest(lock_trees($2::uuid[] || roots.ids, $3::uuid[], $4::uuid[] || roots.ids, $5::uuid)) tree (id)
  left join recurring on recurring.id = tree.id;
