/* import_records.select_versions */
select resource_id::text, version from import_records
where import_id = $1::uuid and type = 'task' and resource_id = any((select $2::uuid[])::uuid[]);
