/* import_rows.select_created_sections */
select row.id::text, row.number, section.id::text as resource_id, section.project_id::text from import_rows row
  join sections section on section.id = row.resource_id
  join projects project on project.id = section.project_id and project.deleted_at is null
where row.import_id = $1::uuid and row.outcome = 'created' and row.type = 'section' order by row.number;
