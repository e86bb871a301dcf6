/* events.record_of_tasks */
select count(record_event(row.type, row.task_id, row.project_id, row.owner_id, row.assignee_id, row.resource_id, row.before, row.after)::text)
from jsonb_to_recordset($1::jsonb -> 'rows') as row (
  type text, task_id uuid, project_id uuid, owner_id uuid, assignee_id uuid, resource_id uuid, before jsonb, after jsonb);
