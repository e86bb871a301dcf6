/* tasks.restamp_shown */
  with page as materialized (
    select task.id, task.project_id, task.assignee_id, task.changed_in, coalesce(task.placed_at, task.created_at) as placed_at
    from tasks task
    where task.project_id = $1::uuid and task.deleted_at is null and (task.changed_in, task.id) > ($2::xid8, $3::uuid)
      and task.changed_in < (select visible_in from projects where id = $1::uuid and deleted_at is null)
    -- All columns of tasks_project_changes, which is then read in its order.
    order by task.project_id, task.deleted_at, task.changed_in, task.id limit 100
  ), outsiders as materialized (
    select page.* from page where assignee_id is not null and not exists (
select from memberships where memberships.project_id = page.project_id and memberships.user_id = page.assignee_id)
  ),
locked as materialized (
  select id from tasks where id in (select id from outsiders) order by id for no key update
), delivered as (
  update tasks set changed_in = pg_current_xact_id() where id in (select id from locked)
)
  select changed_in::text, id::text as after from page order by page.changed_in desc, page.id desc limit 1;
