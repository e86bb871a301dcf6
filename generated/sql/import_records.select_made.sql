/* import_records.select_made */
select resource_id::text, version from import_records
where import_id = $1::uuid and type = $2::text and is_made and resource_id > $3::uuid and not exists (
  select from projects project where project.id = import_records.project_id and project.deleted_at is not null)
order by resource_id limit $4::int;
