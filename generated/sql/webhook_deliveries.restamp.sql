/* webhook_deliveries.restamp */ with changed as (update "webhook_deliveries" set "event_changed_in" = '0' where "webhook_deliveries"."id" in (
        select id from webhook_deliveries
        where coalesce((
select true from events event where "event"."changed_in" >= pg_snapshot_xmax(pg_current_snapshot()) order by "event"."changed_in", "event"."ordinal" limit 1), false) and "webhook_deliveries"."event_changed_in" >= pg_snapshot_xmax(pg_current_snapshot())
        limit 500) returning "id") select count(*) as changed from changed;
