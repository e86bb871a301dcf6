/* import_rows.mark */
update import_rows row set outcome = case when mark.code is null then 'undone' else 'kept' end, code = mark.code, message = mark.message
from jsonb_to_recordset($1::jsonb -> 'rows') as mark (resource_id uuid, code text, message text)
where row.import_id = $2::uuid and row.outcome in ('created', 'undone', 'kept') and row.resource_id = mark.resource_id;
