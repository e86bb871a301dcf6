/* imports.purge_projects */
with purged as (update projects set purged_at = now() where id = any((select $1::uuid[])::uuid[]) returning id)
delete from import_records record using purged
where record.import_id = $2::uuid and record.project_id = purged.id;
