/* task_tombstones.insert_hidden */
  with page as materialized (
    select task.id, task.project_id, task.assignee_id, task.changed_in, coalesce(task.placed_at, task.created_at) as placed_at
    from tasks task
    where task.project_id = $1::uuid and task.deleted_at is null and (task.changed_in, task.id) > ($2::xid8, $3::uuid)
      and (select deleted_at is not null from projects where id = $1::uuid)
    -- All columns of tasks_project_changes, which is then read in its order.
    order by task.project_id, task.deleted_at, task.changed_in, task.id limit 100
  ), outsiders as materialized (
    select page.* from page where assignee_id is not null and not exists (
select from membership_tombstones hidden join membership_tombstones member using (project_id)
where project_id = page.project_id and hidden.user_id is null and member.user_id = page.assignee_id
  and member.left_in >= hidden.left_in)
  ),
delivered as (
  insert into task_tombstones (task_id, project_id, user_id, changed_in, placed_at)
  select id, project_id, assignee_id, pg_current_xact_id(), placed_at from outsiders order by id
  on conflict on constraint task_tombstones_once
    do update set changed_in = excluded.changed_in, created_at = excluded.created_at
)
  select changed_in::text, id::text as after from page order by page.changed_in desc, page.id desc limit 1;
