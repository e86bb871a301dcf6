/* tasks.spread */
with moved as (
  select * from jsonb_to_recordset($1::jsonb -> 'rows') as row (id uuid, "from" text, "to" text)
), locked as materialized (
  select item.id, item.position from tasks item join moved on moved.id = item.id order by item.id for no key update of item
)
update tasks set position = moved."to", side_changes = side_changes + 1 from moved join locked on locked.id = moved.id
where tasks.id = moved.id and locked.position = moved."from" collate "C"
returning tasks.id::text;
