/* statistics.select_backlog */
  select greatest(coalesce((extract(epoch from clock_timestamp() - (
select min("event"."created_at") from event_readers reader cross join lateral (
  select * from events event
  where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal")
  order by "event"."changed_in", "event"."ordinal" limit 100
) event where "reader"."name" = 'notifications')) * 1000)::bigint, 0), 0) as notifications, greatest(coalesce((extract(epoch from clock_timestamp() - (
select min("event"."created_at") from event_readers reader cross join lateral (
  select * from events event
  where ("event"."changed_in", "event"."ordinal") > ("reader"."changed_in", "reader"."ordinal")
  order by "event"."changed_in", "event"."ordinal" limit 100
) event where "reader"."name" = 'webhooks')) * 1000)::bigint, 0), 0) as webhooks,
    greatest(coalesce((extract(epoch from clock_timestamp() - (
select min("delivery"."due_at") from (
  select "webhook"."id" from webhooks webhook
  where "webhook"."due_at" <= now() and "webhook"."is_enabled" and "webhook"."deleted_at" is null
  order by "webhook"."due_at" limit 100
) webhook cross join lateral (
  select "delivery"."due_at" from webhook_deliveries delivery
  where "delivery"."webhook_id" = "webhook"."id" and "delivery"."status" = 'pending' and "delivery"."due_at" <= now()
  order by "delivery"."due_at" limit 1
) delivery)) * 1000)::bigint, 0), 0) as deliveries,
    (select count(*) from (
      select from webhook_deliveries delivery where "delivery"."status" = 'pending'
      limit 10000
    ) pending) as pending,
    (select count(*) from exports exported where "exported"."status" in ('waiting', 'running')) as exports,
    (select count(*) from imports imported where ("imported"."status" in ('reading', 'running', 'undoing', 'discarding'))) as imports,
case when pg_snapshot_xmin(pg_current_snapshot()) < pg_snapshot_xmax(pg_current_snapshot()) then pg_snapshot_xmin(pg_current_snapshot())::text end as "heldAt";
