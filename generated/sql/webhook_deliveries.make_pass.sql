/* webhook_deliveries.make_pass */
    with
  reader as materialized (
    select * from event_readers reader where "reader"."name" = 'webhooks' and ("reader"."changed_in", "reader"."ordinal") = (
  select "known"."changed_in", "known"."ordinal" from event_readers known where "known"."name" = 'webhooks') and coalesce((
select true from events event where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal") and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot()) order by "event"."changed_in", "event"."ordinal" limit 1), false) for update skip locked
  ), batch as materialized (
    select event.* from reader cross join lateral (
      select * from events event where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal") and "event"."changed_in" < pg_snapshot_xmin(pg_current_snapshot())
      order by "event"."changed_in", "event"."ordinal" limit 100
    ) event
  ), interesting as materialized (
      select "event"."changed_in", "event"."ordinal" from batch event where ("event"."type" <> 'task.imported' and exists (select from webhooks webhook where "webhook"."is_enabled" and "webhook"."deleted_at" is null))
      order by "event"."changed_in", "event"."ordinal" limit 1
    ), moved as (update "event_readers" "reader" set "changed_in" = "last"."changed_in", "ordinal" = "last"."ordinal" from (
      select * from batch last where not exists (
        select from interesting where (interesting.changed_in, interesting.ordinal) <= ("last"."changed_in", "last"."ordinal")) order by "last"."changed_in" desc, "last"."ordinal" desc limit 1) last where "reader"."name" = 'webhooks')
    select exists (select from event_readers reader where "reader"."name" = 'webhooks') as has_begun,
      (select count(*) from batch) as events, exists (select from interesting) as is_of_interest;
