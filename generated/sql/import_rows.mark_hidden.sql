/* import_rows.mark_hidden */ with changed as (
update import_rows set outcome = 'undone' where id in (
  select row.id from import_rows row
    join import_records record
      on record.import_id = row.import_id and record.type = row.type and record.resource_id = row.resource_id
    join projects project on project.id = record.project_id and project.filling_import_id = $1::uuid
  where row.import_id = $1::uuid and row.outcome = 'created'
  union all
  select row.id from import_rows row
    join sections section on row.type = 'section' and section.id = row.resource_id
    join projects project on project.id = section.project_id and project.filling_import_id = $1::uuid
  where row.import_id = $1::uuid and row.outcome = 'created' limit 1000)
returning 1) select count(*) as changed from changed;
