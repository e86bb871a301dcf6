/* import_records.select_touched */
  select task.id::text from tasks task where task.id = any((select $1::uuid[])::uuid[]) and ((
  select record.version from import_records record
  where record.import_id = $2::uuid and record.type = 'task' and record.resource_id = task.id) is distinct from task.version + task.side_changes
or exists (select from comments comment where comment.task_id = task.id and comment.version > 1)
or exists (
  select from task_relations relation where task.id in (relation.task_id, relation.other_task_id) and not coalesce((
    select record.is_made from import_records record
    where record.import_id = $2::uuid and record.type = 'relation' and record.resource_id = relation.id), false)
    and not exists (
      select from tasks other join projects project on project.id = other.project_id
      where other.id in (relation.task_id, relation.other_task_id) and project.purged_at is not null)));
