/* tasks.update */
  update tasks task set title = row.title, description = coalesce(row.description, task.description), status = row.status, priority = row.priority, start_at = row.start_at, start_on = row.start_on, due_at = row.due_at, due_on = row.due_on, owner_id = row.owner_id, assignee_id = row.assignee_id, project_id = row.project_id, section_id = row.section_id, parent_id = row.parent_id, position = row.position, recurrence = row.recurrence, series_id = row.series_id, recurrence_anchor = row.recurrence_anchor, occurrence_number = row.occurrence_number, occurrence_at = row.occurrence_at, occurrence_on = row.occurrence_on, next_task_id = row.next_task_id, metadata = coalesce(row.metadata, task.metadata), external_source = row.external_source, external_id = row.external_id,
    completed_at = case row.completion
      when 'before' then task.completed_at
      when 'now' then greatest(clock_timestamp(), task.created_at) end,
    deleted_at = case when row.is_trashed then coalesce(task.deleted_at, now()) end,
    subtask_count = task.subtask_count + row.subtasks,
    open_subtask_count = task.open_subtask_count + row.open_subtasks,
    version = task.version + row.versions,
    side_changes = task.side_changes + row.side_changes,
    updated_at = greatest(clock_timestamp(), task.created_at)
  from (
  select * from jsonb_to_recordset($1::jsonb -> 'rows') as row (title text, description text, status text, priority text, start_at timestamp (3) with time zone, start_on date, due_at timestamp (3) with time zone, due_on date, owner_id uuid, assignee_id uuid, project_id uuid, section_id uuid, parent_id uuid, position text collate "C", recurrence jsonb, series_id uuid, recurrence_anchor jsonb, occurrence_number integer, occurrence_at timestamp (3) with time zone, occurrence_on date, next_task_id uuid, metadata jsonb, external_source text, external_id text, id uuid, completion text, is_trashed boolean, versions int, side_changes int, subtasks int, open_subtasks int) limit (select jsonb_array_length($1::jsonb -> 'rows'))
) row
  where task.id = row.id;
