/* uploads.select */
  select case when upload.expires_at <= now() then 'upload_gone' else 'done' end as outcome,
upload.task_id::text, upload.file_name, upload.content_type, upload.sha256,
upload.upload_metadata, upload.upload_length, case
when upload.attachment_id is null then least(upload.upload_offset, greatest(upload.upload_length - 1, 0))
else upload.upload_offset end as upload_offset,
upload.upload_offset as stored, upload.storage_key, upload.attachment_id::text, upload.task_version,
to_char(upload.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires_at
  from uploads upload where upload.id = $1::uuid and (upload.user_id = $2::uuid);
