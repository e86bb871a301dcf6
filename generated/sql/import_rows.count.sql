/* import_rows.count */
select count(*) filter (where outcome = 'created')::int as created, count(*) filter (where outcome = 'updated')::int as updated, count(*) filter (where outcome = 'skipped')::int as skipped, count(*) filter (where outcome = 'refused')::int as refused, count(*) filter (where outcome = 'undone')::int as undone, count(*) filter (where outcome = 'kept')::int as kept
from import_rows where import_id = $1::uuid;
