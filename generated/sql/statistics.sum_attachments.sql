/* statistics.sum_attachments */
with batch as materialized (
  select id, 'bytes' as kind, "attachments"."size" as value from "attachments"
  where id > $1::uuid and true order by id limit 5000
)
select (select id::text from batch order by id desc limit 1) as last, kind, sum(value)::bigint as value
from batch group by kind;
