/* webhook_deliveries.make_due */
  with ahead as materialized (
    select "delivery"."id", "delivery"."webhook_id" from webhooks webhook cross join lateral (
      select * from webhook_deliveries delivery
      where "delivery"."webhook_id" = "webhook"."id" and "delivery"."status" = 'pending' and "delivery"."due_at" > now()
and ("delivery"."attempts" = 0 or "delivery"."attempted_at" > now() or "delivery"."due_at" > now() + interval '6 hours') limit 500
    ) delivery where "webhook"."due_at" > now() limit 500
  ), advanced as (update "webhooks" "webhook" set "due_at" = now() where "webhook"."id" in (select webhook_id from ahead)),
  made_due as (update "webhook_deliveries" "delivery" set "due_at" = now(), "created_at" = least("delivery"."created_at", now()) from ahead where "delivery"."id" = ahead.id returning "delivery"."id")
  select count(*) as made_due from made_due;
