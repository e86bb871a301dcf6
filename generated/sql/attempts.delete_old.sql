/* attempts.delete_old */ with changed as (delete from "attempts" where ctid = any(array(
select ctid from "attempts" where last_failed_at <
coalesce((select least(now(), "retention"."seen_at" + interval '2 hours') - "retention"."unconfirmed" from retention), now()) - interval '1 day' and delayed_until <= now() limit 500 for update skip locked)) returning 1) select count(*) as changed from changed;
