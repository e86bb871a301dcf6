/* import_rows.select_created */
select row.id::text, row.number, row.resource_id::text from import_rows row
where row.import_id = $1::uuid and row.outcome = 'created' and row.type = $2::text and row.number > $3::int
  and (
    select project.deleted_at from import_records record join projects project on project.id = record.project_id
    where record.import_id = row.import_id and record.type = row.type and record.resource_id = row.resource_id) is null
order by row.number limit $4::int;
