/* imports.select_hidden_projects */
select project.id::text from import_records record join projects project on project.id = record.resource_id
where record.import_id = $1::uuid and record.type = 'project' and project.deleted_at is not null and project.purged_at is null
  and not exists (select from project_members member where member.project_id = project.id)
order by project.id for update of project;
