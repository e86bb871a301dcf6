/* tasks.rebalance */
with moved as (
  select * from jsonb_to_recordset($1::jsonb -> 'rows') as row (id uuid, "from" text, "to" text)
), present as (
  select item.id from tasks item join moved on moved.id = item.id
  where item.position = moved."from" collate "C" order by item.id for no key update of item
)
update tasks item set position = moved."to" from moved
where item.id = moved.id and (select count(*) from present) = (select count(*) from moved);
