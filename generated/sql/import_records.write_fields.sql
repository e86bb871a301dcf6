/* import_records.write_fields */
update import_records record set fields = row.fields
from jsonb_to_recordset($1::jsonb -> 'rows') as row (source_id text, fields jsonb)
where record.user_id = $2::uuid and record.source = $3::text and record.type = 'task' and record.source_id = row.source_id;
