/* uploads.lease */
    with target as (
      select upload.*, task.project_id, (((task.owner_id = $1::uuid and task.project_id is null) or (coalesce(task.assignee_id = $1::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = task.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $2::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))) as may_add
      from uploads upload join tasks task on task.id = upload.task_id
      where upload.id = $3::uuid and (upload.user_id = $1::uuid) and ((task.deleted_at is null and ((task.owner_id = $1::uuid and task.project_id is null) or (coalesce(task.assignee_id = $1::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = task.project_id and true offset 0) or ((select $2::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))))
      for update of upload
    ), checked as (
      select target.id, case
when not (may_add) then 'forbidden'
when not (true) then 'reauthentication_required'
when $4::text[] is not null and coalesce('*' = any($4::text[]), false) and true then 'precondition_failed'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived'
          when target.expires_at <= now() then 'upload_gone'
          when target.leased_until > now() and target.leased_until <= now() + interval '5 seconds' + interval '1 minute' then 'upload_locked'
          when case
  when target.attachment_id is null then least(target.upload_offset, greatest(target.upload_length - 1, 0))
  else target.upload_offset end <> $5::bigint then 'upload_conflict'
else done_by($1::uuid) end as outcome
      from target
    ), leased as (
      update uploads set lease_id = $6::uuid, leased_until = now() + interval '5 seconds'
      from checked
      where uploads.id = checked.id and checked.outcome = 'done' and uploads.attachment_id is null
    )
    select outcome,
  target.task_id::text, target.file_name, target.content_type, target.sha256,
  target.upload_metadata, target.upload_length, case
  when target.attachment_id is null then least(target.upload_offset, greatest(target.upload_length - 1, 0))
  else target.upload_offset end as upload_offset,
  target.upload_offset as stored, target.storage_key, target.attachment_id::text, target.task_version,
  to_char(target.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at from target join checked on checked.id = target.id;
