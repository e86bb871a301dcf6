/* uploads.insert */
    with uploader as (
      select users.attachment_bytes + coalesce((
        select sum(uploads.upload_length) from uploads
        where uploads.user_id = users.id and uploads.attachment_id is null
      ), 0)::bigint as used, case when users.attachment_quota_bytes is null then $1::bigint else nullif(users.attachment_quota_bytes, 0) end as quota
      from users where users.id = $2::uuid
    ), checked as (
      select case
when not ((((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when exists (select from projects where projects.id = task.project_id and projects.archived_at is not null) then 'project_archived' when $4::bigint > 0 and used + $4::bigint > quota then 'quota_exceeded'
else done_by($2::uuid) end as outcome, used, quota
      from tasks task cross join uploader
      where task.id = $5::uuid and ((task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))))
    ), added as (
      insert into uploads (id, task_id, user_id, file_name, content_type, sha256, upload_metadata, upload_length, storage_key, expires_at) select $6::uuid, $5::uuid, $2::uuid, $7::text, $8::text, $9::text, $10::text, $4::bigint, $11::text, now() + interval '24 hours' from checked where outcome = 'done'
      returning uploads.expires_at
    )
    select outcome, used, coalesce(quota, 0) as quota, to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at from checked left join added on true;
