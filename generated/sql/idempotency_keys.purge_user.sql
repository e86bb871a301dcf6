/* idempotency_keys.purge_user */ with changed as (delete from "idempotency_keys" where ctid = any(array(
select ctid from "idempotency_keys" where principal_id = $1::uuid limit 100 for update skip locked)) returning 1) select count(*) as changed from changed;
