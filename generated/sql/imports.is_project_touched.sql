/* imports.is_project_touched */
  select made.version is distinct from project.version
    or (select count(*) > 1 from memberships where project_id = project.id)
    or exists (
      select from tasks task
      where task.project_id = project.id and (task.deleted_at is not null or ((
select record.version from import_records record
where record.import_id = $1::uuid and record.type = 'task' and record.resource_id = task.id) is distinct from task.version)))
    as is_touched
  from projects project left join import_records made
    on made.import_id = $1::uuid and made.type = 'project' and made.resource_id = project.id
  where project.id = $2::uuid;
