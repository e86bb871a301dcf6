/* import_records.raise_revisions */
update import_records set version = version + 1
where import_id = $1::uuid and type = 'task' and resource_id = any((select $2::uuid[])::uuid[]);
