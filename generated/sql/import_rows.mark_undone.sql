/* import_rows.mark_undone */
update import_rows set outcome = case when resource_id = any($1::uuid[]) then 'undone' else 'kept' end,
  code = case when resource_id = any($2::uuid[]) then 'changed' end,
  message = case when resource_id = any($2::uuid[]) then 'Somebody has changed it since, or what belongs to it.' end
where import_id = $3::uuid and outcome in ('created', 'undone', 'kept') and resource_id = any($1::uuid[] || $2::uuid[]);
