/* import_rows.mark */ with changed as (
update import_rows row set outcome = case when mark.code is null then 'undone' else 'kept' end, code = mark.code, message = mark.message
from jsonb_to_recordset($1::jsonb -> 'rows') as mark (id uuid, code text, message text)
where row.id = mark.id returning 1) select count(*) as changed from changed;
