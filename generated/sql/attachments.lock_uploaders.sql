/* attachments.lock_uploaders */
with recursive tree as (
  select id, deleted_at from tasks where id = $1::uuid
  union select subtask.id, subtask.deleted_at from tree
    join tasks subtask on subtask.parent_id = tree.id and subtask.deleted_at = tree.deleted_at
)
select id::text from users
where id in (select uploaded_by from attachments join tree on tree.id = task_id) order by id for no key update;
