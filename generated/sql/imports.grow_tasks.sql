/* imports.grow_tasks */
with grown as (
  update tasks set subtask_count = subtask_count + row.subtasks, open_subtask_count = open_subtask_count + row.open_subtasks,
    comment_count = comment_count + row.comments, attachment_count = attachment_count + row.attachments,
    blocker_count = blocker_count + row.blockers, side_changes = side_changes + 1, updated_at = greatest(clock_timestamp(), tasks.created_at)
  from jsonb_to_recordset($1::jsonb -> 'rows') as row (
    id uuid, subtasks int, open_subtasks int, comments int, attachments int, blockers int)
  where tasks.id = row.id returning tasks.id
)
update import_records record set version = record.version + 1 from grown
where record.import_id = $2::uuid and record.type = 'task' and record.resource_id = grown.id;
