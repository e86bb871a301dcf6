/* attachments.delete */
  with target as (
    select attachment.id, task.version + 1 as task_version, case
when not ((attachment.uploaded_by = $1::uuid or task.owner_id = $1::uuid or exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = task.project_id and membership.role in ('manager') offset 0) or (select $2::bool))) then 'forbidden'
when not (true) then 'reauthentication_required'
when $3::text[] is not null and not (attachment.sha256 is not null and array[attachment.sha256, '*'] && $3::text[]) then 'precondition_failed'
    when $4::text[] is not null and (attachment.sha256 is not null and array[attachment.sha256, '*'] && $4::text[]) then 'precondition_failed'
when exists (select from projects where projects.id = task.project_id and projects.archived_at is not null) then 'project_archived'
else done_by($1::uuid) end as outcome
    from attachments attachment join tasks task on task.id = attachment.task_id
    where attachment.id = $5::uuid and ((task.deleted_at is null and ((task.owner_id = $1::uuid and task.project_id is null) or (coalesce(task.assignee_id = $1::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = task.project_id and true offset 0) or ((select $2::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))))
    for no key update of task
  ), removed as (
    delete from attachments using target
    where attachments.id = target.id and target.outcome = 'done' returning attachments.id
  )
  select case when outcome = 'done' and removed.id is null then 'missing' else outcome end as outcome, task_version
  from target left join removed on true;
