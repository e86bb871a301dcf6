/* import_records.select_touched */
  select task.id::text from tasks task where task.id = any((select $1::uuid[])::uuid[]) and ((
select record.version from import_records record
where record.import_id = $2::uuid and record.type = 'task' and record.resource_id = task.id) is distinct from task.version);
