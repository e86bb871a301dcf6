/* imports.is_project_touched */
select project.version <> $1::int
  or (select count(*) > 1 from memberships where project_id = project.id)
  or exists (
    select from tasks task left join import_records record
      on record.import_id = $2::uuid and record.type = 'task' and record.resource_id = task.id
    where task.project_id = project.id and (record.version is null or record.version <> task.version or task.deleted_at is not null))
  as is_touched
from projects project where project.id = $3::uuid;
