/* imports.is_project_touched */
  select made.version is distinct from project.version
    or (select count(*) > 1 from memberships where project_id = project.id)
    or exists (
      select from sections section
      where section.project_id = project.id and (section.version > 1 or section.id <> all($1::uuid[])))
    or exists (
      select from tasks task
      where task.project_id = project.id and (task.deleted_at is not null or ((
  select record.version from import_records record
  where record.import_id = $2::uuid and record.type = 'task' and record.resource_id = task.id) is distinct from task.version + task.side_changes
or exists (select from comments comment where comment.task_id = task.id and comment.version > 1)
or exists (
  select from task_relations relation where task.id in (relation.task_id, relation.other_task_id) and not coalesce((
    select record.is_made from import_records record
    where record.import_id = $2::uuid and record.type = 'relation' and record.resource_id = relation.id), false)
    and not exists (
      select from tasks other join projects project on project.id = other.project_id
      where other.id in (relation.task_id, relation.other_task_id) and project.purged_at is not null)))))
    as is_touched
  from projects project left join import_records made
    on made.import_id = $2::uuid and made.type = 'project' and made.resource_id = project.id
  where project.id = $3::uuid;
