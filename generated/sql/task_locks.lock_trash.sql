/* task_locks.lock_trash */
with recursive tree as (
  select id, deleted_at from tasks where id = $1::uuid and deleted_at is not null
  union all
  select subtask.id, subtask.deleted_at from tree
    join tasks subtask on subtask.parent_id = tree.id and subtask.deleted_at = tree.deleted_at
)
select id::text from tasks where id in (select id from tree) order by id for update;
