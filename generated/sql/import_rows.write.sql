/* import_rows.write */
insert into import_rows (import_id, number, outcome, type, source_id, part, row, field, code, message, resource_id)
select $1::uuid, row.number, row.outcome, row.type, row.source_id, row.part, row.row, row.field, row.code, row.message, row.resource_id
from jsonb_to_recordset($2::jsonb -> 'rows') as row (
  number int, outcome text, type text, source_id text, part text, row int, field text, code text, message text, resource_id uuid)
on conflict (import_id, number) do update set
  outcome = case import_rows.outcome when 'updated' then 'updated' else excluded.outcome end, type = excluded.type, source_id = excluded.source_id,
  part = excluded.part, row = excluded.row, field = excluded.field, code = excluded.code, message = excluded.message,
  resource_id = excluded.resource_id;
