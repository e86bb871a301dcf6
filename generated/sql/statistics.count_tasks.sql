/* statistics.count_tasks */
with batch as materialized (
  select id, case when "tasks"."deleted_at" is null then "tasks"."status" else 'trashed' end as kind, 1 as value from "tasks"
  where id > $1::uuid and true order by id limit 5000
)
select (select id::text from batch order by id desc limit 1) as last, kind, sum(value)::bigint as value
from batch group by kind;
