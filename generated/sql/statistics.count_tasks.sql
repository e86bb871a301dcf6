/* statistics.count_tasks */
with batch as materialized (
  select id, case when counted.deleted_at is null then counted.status else 'trashed' end as kind, 1 as value from tasks counted
  where id > $1::uuid and true order by id limit 5000
)
select (select id::text from batch order by id desc limit 1) as last, kind, sum(value)::bigint as value
from batch group by kind;
