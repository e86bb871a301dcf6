/* attachments.check_insertion */
    select case
when not ((((task.owner_id = $1::uuid and task.project_id is null) or (coalesce(task.assignee_id = $1::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = task.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $2::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when exists (select from projects where projects.id = task.project_id and projects.archived_at is not null) then 'project_archived' when $3::bigint > 0 and uploader.attachment_bytes + $3::bigint > case when uploader.attachment_quota_bytes is null then $4::bigint else nullif(uploader.attachment_quota_bytes, 0) end then 'quota_exceeded'
else done_by($1::uuid) end as outcome, uploader.attachment_bytes as used, coalesce(case when uploader.attachment_quota_bytes is null then $4::bigint else nullif(uploader.attachment_quota_bytes, 0) end, 0) as quota
    from tasks task join users uploader on uploader.id = $1::uuid
    where task.id = $5::uuid and ((task.deleted_at is null and ((task.owner_id = $1::uuid and task.project_id is null) or (coalesce(task.assignee_id = $1::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $1::uuid and membership.project_id = task.project_id and true offset 0) or ((select $2::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))));
