/* idempotency_keys.correct_created_at */ with changed as (update "idempotency_keys" set "created_at" = now() + interval '0' where ctid = any(array(
select ctid from "idempotency_keys" where "idempotency_keys"."created_at" > now() + interval '0' + interval '1 minute' limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
