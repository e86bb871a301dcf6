/* attachments.insert */ with
      target as (
        select * from tasks task
        where task.id = $1::uuid and ((task.deleted_at is null and ((task.owner_id = $2::uuid and task.project_id is null) or (coalesce(task.assignee_id = $2::uuid, false) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = task.project_id and true offset 0) or ((select $3::bool) and case when task.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[task.owner_id])
else exists (select from projects where projects.id = task.project_id and projects.deleted_at is null offset 0) end))))
        for no key update
      ), uploader as (
        select users.attachment_bytes as used, case when users.attachment_quota_bytes is null then $4::bigint else nullif(users.attachment_quota_bytes, 0) end as quota from users
        where users.id = $2::uuid and exists (select from target) for no key update
      ), checked as (
        select case
when not ((((target.owner_id = $2::uuid and target.project_id is null) or (coalesce(target.assignee_id = $2::uuid, false) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end) or exists (
  select from memberships membership
  where membership.user_id = $2::uuid and membership.project_id = target.project_id and membership.role in ('editor', 'manager') offset 0) or ((select $3::bool) and case when target.project_id is null
then not (array(select id from users where users.deleted_at is not null) @> array[target.owner_id])
else exists (select from projects where projects.id = target.project_id and projects.deleted_at is null offset 0) end)))) then 'forbidden'
when not (true) then 'reauthentication_required'
when exists (select from projects where projects.id = target.project_id and projects.archived_at is not null) then 'project_archived' when $5::bigint > 0 and used + $5::bigint > quota then 'quota_exceeded'
else done_by($2::uuid) end as outcome,
          coalesce(used, 0) as used, coalesce(quota, 0) as quota, target.version + 1 as task_version
        from target left join uploader on true
      ), finished as (
        update uploads set attachment_id = $6::uuid, task_version = checked.task_version, upload_offset = uploads.upload_length, lease_id = null, leased_until = null from checked
        where uploads.id = $7::uuid and uploads.lease_id = $8::uuid and checked.outcome = 'done'
        returning uploads.id
      ), added as (
        insert into attachments (id, task_id, file_name, content_type, detected_content_type, size, sha256, storage_key, uploaded_by) select $6::uuid, $1::uuid, $9::text, $10::text, $11::text, $5::bigint, $12::text, $13::text, $2::uuid from checked
        where outcome = 'done' and ($7::uuid is null or exists (select from finished))
        returning *
      ), created as (
        select id, json_build_object('task_version', task_version, 'added', (select row_to_json(fields)::text from (select added.id as id, added.task_id as task_id, added.file_name as file_name, added.content_type as content_type, added.detected_content_type as detected_content_type, added.size as size, added.sha256 as sha256, added.uploaded_by as uploaded_by, to_char(added.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields))::text as json from added, checked
      ), kept as (
  insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $2::uuid, $14::text, $15::text, $16::text, id, json
  from created where $15::text is not null and json is not null) select outcome, used, quota, json from checked left join created on true;
