/* webhook_deliveries.correct_created_at */ with changed as (update "webhook_deliveries" set created_at = now(), due_at = least(due_at, now()) where ctid = any(array(
select ctid from "webhook_deliveries" where "webhook_deliveries"."created_at" > now() + interval '0' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
