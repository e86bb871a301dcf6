/* statistics.count_users */
with batch as materialized (
  select id, case when "users"."is_disabled" then 'disabled' else 'active' end as kind, 1 as value from "users"
  where id > $1::uuid and "users"."deleted_at" is null order by id limit 5000
)
select (select id::text from batch order by id desc limit 1) as last, kind, sum(value)::bigint as value
from batch group by kind;
