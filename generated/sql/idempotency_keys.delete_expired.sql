/* idempotency_keys.delete_expired */ with changed as (delete from "idempotency_keys" where ctid = any(array(
select ctid from "idempotency_keys" where "idempotency_keys"."created_at" <=
coalesce((select least(now() - greatest("retention"."unconfirmed", '0'), "retention"."seen_at" - "retention"."unconfirmed" + interval '1 minute') from retention), now()) - interval '24 hours' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
