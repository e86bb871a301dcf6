/* task_followers.set */
  with task as materialized (
    select id from tasks task where id = $1::uuid and (task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) for key share
  ), checked as (
    select id, case
when not (true) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and coalesce('*' = any($4::text[]), false) and exists (
  select from task_followers follower where follower.task_id = $1::uuid and follower.user_id = $2::uuid
    and not follower.has_stopped) then 'precondition_failed'
else done_by($2::uuid) end as outcome from task
  ), changed as (
    insert into task_followers as follower (task_id, user_id, has_stopped) select id, $2::uuid, $5::bool from checked where outcome = 'done'
    on conflict (task_id, user_id) do update set has_stopped = excluded.has_stopped, created_at = excluded.created_at where follower.has_stopped <> excluded.has_stopped
    returning 1
  )
  select case when outcome = 'done' and coalesce('*' = any($4::text[]), false) and not exists (select from changed) then 'precondition_failed' else outcome end as outcome from checked;
