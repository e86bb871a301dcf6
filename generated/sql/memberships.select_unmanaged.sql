/* memberships.select_unmanaged */
select project.id::text from projects project
where project.id = any($1::uuid[]) and project.deleted_at is null
  and not exists (select from memberships where project_id = project.id and role = 'manager')
limit 1;
