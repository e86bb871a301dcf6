/* event_stream.select_start */
select coalesce((select "history"."epoch" from change_history history), 1) as epoch,
  $1::int = coalesce((select "history"."epoch" from change_history history), 1) and (
    exists (select from events event where ("event"."changed_in", "event"."ordinal") = ($2::xid8, $3::bigint))
    or ($2::xid8 = '0' and $3::bigint = 0) and coalesce(
(select "event"."created_at" from events event order by "event"."changed_in", "event"."ordinal" limit 1)
  > now() - interval '1 day', true)) as is_known,
  newest.changed_in::text, newest.ordinal::text
from (values (true)) always left join lateral (
  select "event"."changed_in", "event"."ordinal" from events event where "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot())
  order by "event"."changed_in" desc, "event"."ordinal" desc limit 1
) newest on true;
