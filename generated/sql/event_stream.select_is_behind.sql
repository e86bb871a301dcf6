/* event_stream.select_is_behind */
  select $1::int <> coalesce((select "history"."epoch" from change_history history), 1) as is_other, coalesce((
select true from events event where ("event"."changed_in", "event"."ordinal") > ($2::xid8, $3::bigint) and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) order by "event"."changed_in", "event"."ordinal" limit 1), false) as is_behind;
