/* tasks.insert */
  insert into tasks (id, version, title, description, status, priority, start_at, start_on, due_at, due_on, owner_id, assignee_id, project_id, section_id, parent_id, position, completed_at, deleted_at)
  select row.id, row.version, row.title, row.description, row.status, row.priority, row.start_at, row.start_on, row.due_at, row.due_on, row.owner_id, row.assignee_id, row.project_id, row.section_id, row.parent_id, row.position, case when row.status = 'done' then now() end,
    case when row.is_trashed then now() end
  from (
  select * from jsonb_to_recordset($1::jsonb -> 'rows') as row (title text, description text, status text, priority text, start_at timestamptz, start_on date, due_at timestamptz, due_on date, owner_id uuid, assignee_id uuid, project_id uuid, section_id uuid, parent_id uuid, position text, id uuid, version int, is_trashed boolean) limit jsonb_array_length($1::jsonb -> 'rows')
) row;
