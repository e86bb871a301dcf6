/* notifications.update */
  with checked as (
    select notification.id, case
when not (true) then 'forbidden'
when not (true) then 'reauthentication_required'
when $1::text[] is not null and coalesce('*' = any($1::text[]), false) and true then 'precondition_failed'
else done_by($2::uuid) end as outcome
    from notifications notification
    where notification.id = $3::uuid and ((notification.user_id = $2::uuid and exists (select from tasks where tasks.id = notification.task_id and (tasks.deleted_at is null and ((tasks.owner_id = $2::uuid and tasks.project_id is null) or (coalesce(tasks.assignee_id = $2::uuid, false) and case when tasks.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[tasks.owner_id])
else exists (select from projects where projects.id = tasks.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = tasks.project_id and true offset 0) or ((select $4::bool) and case when tasks.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[tasks.owner_id])
else exists (select from projects where projects.id = tasks.project_id and projects.deleted_at is null offset 0) end)))))) for no key update
  ), changed as (
    update notifications notification set read_at = case when coalesce(($5::jsonb ->> 'is_read')::bool, notification.read_at is not null) then coalesce(notification.read_at, now()) end
    from checked where notification.id = checked.id and checked.outcome = 'done' returning notification.*
  )
  select outcome, (select row_to_json(fields)::text from (select changed.id as id, changed.reason as reason, changed.actor_id as actor_id, changed.task_id as task_id, changed.comment_id as comment_id, to_char(changed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at, to_char(changed.read_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as read_at) fields) as json from checked left join changed on true;
