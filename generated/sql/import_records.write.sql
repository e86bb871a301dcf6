/* import_records.write */
insert into import_records (user_id, source, type, source_id, resource_id, is_made, import_id, project_id, fields)
select $1::uuid, $2::text, row.type, row.source_id, row.resource_id, row.is_made, row.import_id, row.project_id, row.fields
from jsonb_to_recordset($3::jsonb -> 'rows') as row (
  type text, source_id text, resource_id uuid, is_made boolean, import_id uuid, project_id uuid, fields jsonb)
on conflict (user_id, source, type, source_id) do update set is_made = excluded.is_made, import_id = excluded.import_id,
  project_id = excluded.project_id, fields = excluded.fields where not import_records.is_made;
